"""A day out, planned by an agent of smolagents: two steps, each streamed, then an answer, which it doesn't stream.

python examples/agent_smolagents.py
"""

import os

from smolagents import OpenAIModel, ToolCallingAgent, tool
from trip import MODEL, QUESTION
from trip import trains as trains_to
from trip import weather as weather_in


@tool
def weather(city: str) -> str:
    """Tomorrow's weather in a city.

    Args:
        city: Graz, Lille or Turin.
    """
    return weather_in(city)


@tool
def trains(city: str) -> str:
    """Tomorrow's trains to a city.

    Args:
        city: Graz, Lille or Turin.
    """
    return trains_to(city)


model = OpenAIModel(MODEL, api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
agent = ToolCallingAgent(tools=[weather, trains], model=model, stream_outputs=True, max_steps=2)
print(agent.run(QUESTION))
