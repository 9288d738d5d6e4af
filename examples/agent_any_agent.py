"""A day out, planned by any-agent with its own loop.

python agent_any_agent.py
"""

import os

from any_agent import AgentConfig, AnyAgent
from trip import MODEL, QUESTION, SYSTEM, trains, weather

config = AgentConfig(
    model_id=f"openai:{MODEL}",
    api_base=os.environ["OPENAI_BASE_URL"],
    instructions=SYSTEM,
    tools=[weather, trains],
    name="day trip",
)
print(AnyAgent.create("tinyagent", config).run(QUESTION).final_output)
