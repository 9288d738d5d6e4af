"""A day out, planned by a LangChain agent, which is a LangGraph graph, streamed token by token.

python examples/agent_langgraph.py
"""

import asyncio

from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from trip import MODEL, QUESTION, SYSTEM, trains, weather

agent = create_agent(ChatOpenAI(model=MODEL), tools=[weather, trains], system_prompt=SYSTEM)


async def main() -> None:
    """Print the answer's tokens as the graph passes them on."""
    asked = {"messages": [{"role": "user", "content": QUESTION}]}
    async for message, _ in agent.astream(asked, stream_mode="messages"):
        if isinstance(message, AIMessageChunk):
            print(message.text, end="", flush=True)
    print()


asyncio.run(main())
