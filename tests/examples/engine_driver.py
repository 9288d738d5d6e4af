"""`python engine_driver.py ENGINE`: a proxy which makes a model of random weights behave as an agent's model does.

Such a model calls no tool unless it must. So as long as a tool on offer was not called, it is offered alone and has to
be called, once; then no tool is offered, and the answer is kept short. Everything that comes back is passed on as it
comes. `GET /hopbudget/sent` says when the first token of each stream was passed on, as the simulated endpoint does.
"""

import http.client
import json
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER_TOKENS = 60
TOOL_TOKENS = 1000
"""Enough for some words and a call, which are about 100."""
END_OF_TEXT = 2
ONE_CALL: dict[str, Any] = {"parallel_tool_calls": False, "logit_bias": [[END_OF_TEXT, 100]]}
"""Allows no second call, and ends as soon as the first is made."""
SECOND_CALL: dict[str, Any] = {"stop_sequences": ["},", ", {", ",{"]}
"""The messages API takes neither, so there an answer ends where a second call would begin."""
LIMITS = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}
MUST: dict[str, Any] = {"chat": "required", "responses": "required", "messages": {"type": "any"}}
KEPT = {"content", "text", "delta", "reasoning_content", "thinking", "arguments", "partial_json", "name"}
"""Where text that a model wrote is, in an event of any of the APIs."""


def driven(api: str, body: dict[str, Any]) -> dict[str, Any]:
    """The request that makes the model take the agent's next step."""
    called = set(_called(api, body))
    left = [tool for tool in body.get("tools") or [] if _name(tool) not in called]
    plain = {key: value for key, value in body.items() if key not in {"tools", "tool_choice", "parallel_tool_calls"}}
    plain.pop("max_completion_tokens", None)
    if left:
        plain |= {"tools": left[:1], "tool_choice": MUST[api], LIMITS[api]: TOOL_TOKENS}
        return plain | (SECOND_CALL if api == "messages" else ONE_CALL)
    return plain | {LIMITS[api]: ANSWER_TOKENS}


def _name(tool: dict[str, Any]) -> str:
    return str(tool.get("function", tool)["name"])


def _called(api: str, body: dict[str, Any]) -> Iterator[str]:
    if api == "responses":
        yield from (item["name"] for item in body["input"] if item.get("type") == "function_call")
        return
    for message in body["messages"]:
        yield from (_name(each) for each in message.get("tool_calls") or [])
        parts = message.get("content")
        if isinstance(parts, list):
            yield from (part["name"] for part in parts if part.get("type") == "tool_use")


def is_token(line: bytes) -> bool:
    """Whether this line of a stream carries something that the model wrote."""
    if not line.startswith(b"data:") or line.strip() == b"data: [DONE]":
        return False
    event = json.loads(line[5:])
    if "choices" in event:
        return any(_written(choice.get("delta")) for choice in event["choices"])
    if event.get("type") == "response.output_item.added":
        return event["item"].get("type") == "function_call"
    if event.get("type") == "content_block_start":
        return event["content_block"].get("type") == "tool_use"
    return str(event.get("type")).endswith(("delta",)) and event["type"] != "message_delta" and _written(event)


def _written(part: Any, key: str = "") -> bool:
    match part:
        case dict():
            return any(_written(value, name) for name, value in part.items())
        case list():
            return any(_written(value, key) for value in part)
    return key in KEPT and isinstance(part, str) and part != ""


class Driver(BaseHTTPRequestHandler):
    """One request. HTTP/1.0: an answer ends with its connection."""

    engine: str
    sent: list[dict[str, Any]]

    def do_GET(self) -> None:
        """What went out."""
        self._head(200, "application/json")
        self.wfile.write(json.dumps({"sent": self.sent}).encode())

    def do_POST(self) -> None:
        """Pass a driven request on, and its answer back."""
        began, arrived_at = time.perf_counter(), time.time()
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = urllib.parse.urlsplit(self.path).path
        api = {"completions": "chat"}.get(path.rpartition("/")[2], path.rpartition("/")[2])
        record: dict[str, Any] = {
            "arrived_at": arrived_at,
            "streamed": bool(body.get("stream")),
            "first_token_s": None,
        }
        record["traceparent"] = self.headers.get("traceparent")
        self.sent.append(record)
        upstream = http.client.HTTPConnection(urllib.parse.urlsplit(self.engine).netloc, timeout=120)
        headers = {"content-type": "application/json"}
        headers |= {name: value for name, value in self.headers.items() if name.startswith("anthropic-")}
        upstream.request("POST", path, json.dumps(driven(api, body)), headers)
        answer = upstream.getresponse()
        self._head(answer.status, answer.headers["content-type"])
        if answer.status != 200:
            said = answer.read()
            print(f"the engine answered {answer.status}: {said[:500]!r}", file=sys.stderr)  # noqa: T201
            self.wfile.write(said)
            return
        if not record["streamed"]:
            self.wfile.write(answer.read())
            return
        while line := answer.readline():
            self.wfile.write(line)
            if record["first_token_s"] is None and is_token(line):
                # Events end with an empty line, which is what makes the client hand this one on.
                end = answer.readline()
                record["first_token_s"] = time.perf_counter() - began
                self.wfile.write(end)
        upstream.close()

    def _head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def main(engine: str) -> None:
    handler = type("OneEngine", (Driver,), {"engine": engine, "sent": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
