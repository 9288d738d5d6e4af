"""A day out, planned by an agent of the OpenAI Agents SDK, run streamed.

python examples/agent_openai_agents.py
"""

import asyncio

from agents import Agent, Runner, function_tool
from openai.types.responses import ResponseTextDeltaEvent
from trip import MODEL, QUESTION, SYSTEM, trains, weather

agent = Agent(
    name="day trips",
    instructions=SYSTEM,
    model=MODEL,
    tools=[function_tool(weather), function_tool(trains)],
)


async def main() -> None:
    """Print the answer's tokens among the events of the run."""
    result = Runner.run_streamed(agent, QUESTION)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            print(event.data.delta, end="", flush=True)
    print()


asyncio.run(main())
