"""A service that plans days out: one agent a request, its answer streamed to the caller.

uvicorn --app-dir examples service:app
curl -N 'http://127.0.0.1:8000/trip?question=Where+to%3F'
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI
from trip import MODEL, QUESTION, SCHEMA, SYSTEM, TOOLS, call

app = FastAPI()
client = AsyncOpenAI()
FUNCTIONS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": SCHEMA}}
    for name, tool in TOOLS.items()
]


async def answer(question: str) -> AsyncIterator[str]:
    """The agent: two tools, then the words of the answer."""
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    for name in TOOLS:
        choice: Any = {"type": "function", "function": {"name": name}}
        reply = await client.chat.completions.create(
            model=MODEL, messages=messages, tools=FUNCTIONS, tool_choice=choice
        )
        message = reply.choices[0].message
        messages.append(message)
        for asked in message.tool_calls or []:
            result = await asyncio.to_thread(call, asked.function.name, json.loads(asked.function.arguments))
            messages.append({"role": "tool", "tool_call_id": asked.id, "content": result})
    stream = await client.chat.completions.create(
        model=MODEL, messages=messages, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        if chunk.choices:
            yield chunk.choices[0].delta.content or ""


@app.get("/trip")
async def trip(question: str = QUESTION) -> StreamingResponse:
    """One agent run."""
    return StreamingResponse(answer(question), media_type="text/plain")
