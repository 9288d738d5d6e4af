"""A day out, planned with Anthropic's client: messages, tools in a loop, each turn streamed.

    python examples/agent_anthropic.py

It asks ANTHROPIC_BASE_URL with ANTHROPIC_API_KEY.
"""

from typing import Any

from anthropic import Anthropic
from trip import MODEL, QUESTION, SCHEMA, SYSTEM, TOOLS, call

client = Anthropic()
tools: list[Any] = [{"name": name, "description": tool.__doc__, "input_schema": SCHEMA} for name, tool in TOOLS.items()]
messages: list[Any] = [{"role": "user", "content": QUESTION}]

while True:
    with client.messages.stream(model=MODEL, max_tokens=400, system=SYSTEM, messages=messages, tools=tools) as stream:
        for text in stream.text_stream:
            print(text, end="", flush=True)
        message = stream.get_final_message()
    if message.stop_reason != "tool_use":
        break
    messages.append({"role": "assistant", "content": message.content})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": call(block.name, dict(block.input))}
        for block in message.content
        if block.type == "tool_use"
    ]
    messages.append({"role": "user", "content": results})
print()
