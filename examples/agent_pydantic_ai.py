"""A day out, planned by a pydantic-ai agent, its answer streamed.

python examples/agent_pydantic_ai.py
"""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from trip import MODEL, QUESTION, SYSTEM, trains, weather

agent = Agent(OpenAIChatModel(MODEL), instructions=SYSTEM, tools=[weather, trains])


async def main() -> None:
    """Print the answer as it comes."""
    async with agent.run_stream(QUESTION) as result:
        async for text in result.stream_text(delta=True):
            print(text, end="", flush=True)
    print()


asyncio.run(main())
