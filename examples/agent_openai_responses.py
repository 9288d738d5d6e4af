"""A day out, planned with OpenAI's asynchronous client: responses, every step streamed until no tool is called.

python examples/agent_openai_responses.py
"""

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI
from trip import MODEL, QUESTION, SCHEMA, SYSTEM, TOOLS, call

FUNCTIONS = [
    {"type": "function", "name": name, "description": tool.__doc__, "parameters": SCHEMA, "strict": True}
    for name, tool in TOOLS.items()
]


async def main() -> None:
    """Ask, call what is asked for, and ask again."""
    said: list[Any] = [{"role": "user", "content": QUESTION}]
    async with AsyncOpenAI() as client:
        while said[-1].get("type", "") != "message":
            stream = await client.responses.create(
                model=MODEL, instructions=SYSTEM, input=said, tools=FUNCTIONS, store=False, stream=True
            )
            async for event in stream:
                if event.type == "response.output_text.delta":
                    print(event.delta, end="", flush=True)
                elif event.type == "response.completed":
                    response = event.response
            for item in response.output:
                said.append(item.model_dump(exclude_none=True))
                if item.type == "function_call":
                    result = await asyncio.to_thread(call, item.name, json.loads(item.arguments))
                    said.append({"type": "function_call_output", "call_id": item.call_id, "output": result})
    print()


asyncio.run(main())
