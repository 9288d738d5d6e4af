"""A day out, planned by a Strands agent, every step streamed.

python agent_strands.py
"""

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from trip import MODEL, QUESTION, SYSTEM, trains, weather

agent = Agent(
    model=OpenAIModel(model_id=MODEL),
    tools=[tool(weather), tool(trains)],
    system_prompt=SYSTEM,
    name="day trip",
)
agent(QUESTION)
print()
