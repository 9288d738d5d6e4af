"""A day out, planned by an agent of Google's ADK on any OpenAI-compatible model, by way of litellm.

python agent_adk.py
"""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
from trip import MODEL, QUESTION, SYSTEM, trains, weather

agent = LlmAgent(name="day_trip", model=LiteLlm(f"openai/{MODEL}"), instruction=SYSTEM, tools=[weather, trains])


async def main() -> None:
    """Print the answer as it comes."""
    runner = InMemoryRunner(agent=agent, app_name="day_trips")
    session = await runner.session_service.create_session(app_name="day_trips", user_id="you")
    asked = types.Content(role="user", parts=[types.Part(text=QUESTION)])
    events = runner.run_async(
        user_id="you",
        session_id=session.id,
        new_message=asked,
        run_config=RunConfig(streaming_mode=StreamingMode.SSE),
    )
    async for event in events:
        if event.partial and event.content and event.content.parts:
            print(event.content.parts[0].text or "", end="", flush=True)
    print()


asyncio.run(main())
