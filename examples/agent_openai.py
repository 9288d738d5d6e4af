"""A day out, planned with OpenAI's client: chat completions, tools in a loop, the answer streamed.

    python examples/agent_openai.py

It asks OPENAI_BASE_URL with OPENAI_API_KEY for AGENT_MODEL, as do the other agents here.
"""

import json
from typing import Any

from openai import OpenAI
from trip import MODEL, QUESTION, SCHEMA, SYSTEM, TOOLS, call

client = OpenAI()
functions = [
    {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": SCHEMA}}
    for name, tool in TOOLS.items()
]
messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]

for name in TOOLS:
    reply = client.chat.completions.create(
        model=MODEL,
        messages=messages,
        tools=functions,
        tool_choice={"type": "function", "function": {"name": name}},
    )
    message = reply.choices[0].message
    messages.append(message)
    for asked in message.tool_calls or []:
        result = call(asked.function.name, json.loads(asked.function.arguments))
        messages.append({"role": "tool", "tool_call_id": asked.id, "content": result})

for chunk in client.chat.completions.create(model=MODEL, messages=messages, stream=True):
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
