"""A day out, planned by a pydantic-ai agent, every step streamed.

python examples/agent_pydantic_ai.py
"""

import asyncio
from collections.abc import AsyncIterable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models.openai import OpenAIChatModel
from trip import MODEL, QUESTION, SYSTEM, trains, weather

agent = Agent(OpenAIChatModel(MODEL), instructions=SYSTEM, tools=[weather, trains])


async def show(_context: Any, events: AsyncIterable[Any]) -> None:
    """Print text as it comes."""
    async for event in events:
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                print(text, end="", flush=True)


asyncio.run(agent.run(QUESTION, event_stream_handler=show))
print()
