"""A day out, planned through litellm: tools in a loop, the answer streamed.

python examples/agent_litellm.py
"""

import json
from typing import Any

import litellm
from trip import MODEL, QUESTION, SCHEMA, SYSTEM, TOOLS, call

litellm.suppress_debug_info = True  # it has no price for models of your own
functions = [
    {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": SCHEMA}}
    for name, tool in TOOLS.items()
]
messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]

while True:
    chunks = []
    for chunk in litellm.completion(model=f"openai/{MODEL}", messages=messages, tools=functions, stream=True):
        chunks.append(chunk)
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    message: Any = litellm.stream_chunk_builder(chunks).choices[0].message  # type: ignore[union-attr]
    messages.append(message)
    for asked in message.tool_calls or []:
        result = call(asked.function.name, json.loads(asked.function.arguments))
        messages.append({"role": "tool", "tool_call_id": asked.id, "content": result})
    if not message.tool_calls:
        break
print()
