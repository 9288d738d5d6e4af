"""Real sockets and the real client: what arrives, and that nothing is left behind."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest

from hopbudget.endpoint import running, running_apart, serve
from hopbudget.errors import Exit, UserError

HELLO: Any = [{"role": "user", "content": "hello"}]
PLAIN = "Ten tokens, twenty milliseconds apart, and then stop."
WIDE = "期限を守る🙂预算，🚀한도é。"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(seed=1) as base:
        yield base


def port_of(base: str) -> int:
    port = urlsplit(base).port
    assert port is not None
    return port


def is_open(base: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port_of(base))) == 0


async def read(client: openai.AsyncOpenAI, row: str) -> dict[str, Any]:
    """One row through the client: what it said, and how it ended."""
    got: dict[str, Any] = {"content": "", "thought": "", "arguments": "", "finish": None, "usage": None, "error": None}
    try:
        stream = await client.chat.completions.create(
            model="sim-small", messages=HELLO, stream=True, extra_headers={"x-hopbudget-row": row}
        )
        async for chunk in stream:
            got["usage"] = chunk.usage.completion_tokens if chunk.usage else got["usage"]
            for choice in chunk.choices:
                delta = choice.delta
                got["content"] += delta.content or ""
                got["thought"] += getattr(delta, "reasoning_content", None) or ""
                got["arguments"] += "".join(
                    call.function.arguments or "" for call in delta.tool_calls or [] if call.function
                )
                got["finish"] = choice.finish_reason or got["finish"]
    except openai.APIError as error:
        got["error"] = error.message
    return got


async def test_every_row_reaches_the_real_client(address: str) -> None:
    whole = {"content": PLAIN, "finish": "stop", "usage": 10}
    said: dict[str, dict[str, Any]] = {
        **dict.fromkeys(("A1", "A2", "A3", "A4", "A13", "B"), whole),
        "A5": {"content": WIDE, "finish": "stop", "usage": 10},
        "A6": {"content": "Ten tokens,", "error": "the simulated GPU fell over"},
        "A7": {"content": "Ten tokens,"},
        "A10": {"thought": "Ten tokens, twenty milliseconds apart", "content": ", and then stop.", "usage": 10},
        "A11": {"content": "", "arguments": '{"query": "deadline budgets"}', "finish": "tool_calls", "usage": 10},
        "A12": {"content": " stop.", "usage": 1},
    }
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        rows = [*said, "A8", "A9"]
        got = dict(zip(rows, await asyncio.gather(*(read(client, row) for row in rows)), strict=True))
    for row, expected in said.items():
        assert {key: got[row][key] for key in expected} == expected, row
    assert got["A6"]["finish"] is got["A7"]["finish"] is got["A7"]["error"] is None
    assert (got["A8"]["usage"], got["A9"]["usage"]) == (50, None)
    assert got["A8"]["content"] == got["A9"]["content"]


def test_models_and_errors_through_the_sync_client(address: str) -> None:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["sim-small", "sim-large", "sim-reasoner"]
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            client.chat.completions.create(model="gpt-9", messages=HELLO)
        with pytest.raises(openai.BadRequestError, match="at least 1"):
            client.chat.completions.create(model="sim-small", messages=HELLO, max_tokens=0)


def test_the_context_leaves_no_thread_and_no_port() -> None:
    before = set(threading.enumerate())
    with running() as base:
        assert is_open(base)
    assert not is_open(base)
    assert set(threading.enumerate()) == before


def test_an_exception_in_the_block_still_ends_the_server() -> None:
    with pytest.raises(RuntimeError, match="mine"), running() as base:
        raise RuntimeError("mine")
    assert not is_open(base)


def test_the_process_apart_ends_with_the_block() -> None:
    with running_apart() as base:
        assert is_open(base)
    assert not is_open(base)


def test_the_process_apart_ends_when_its_parent_dies() -> None:
    command = [sys.executable, "-m", "hopbudget.endpoint"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline().startswith("listening on http://127.0.0.1:")
    child.stdin.close()
    assert child.wait(timeout=30) == 0
    child.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_serving_cleanly_even_with_a_stream_open(number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "serve.py"
    program.write_text(
        "from hopbudget.endpoint import serve\n"
        "serve(0, on_ready=lambda address: print(address, flush=True))\n"
        "print('ended', flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    base = child.stdout.readline().strip()
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(
            model="sim-small", messages=HELLO, stream=True, extra_headers={"x-hopbudget-tokens": "30000"}
        )
        next(iter(stream))
        child.send_signal(number)
        out, err = child.communicate(timeout=30)
        stream.close()
    assert (child.returncode, out, err) == (0, "ended\n", "")


def test_a_port_in_use_is_one_clear_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError) as raised:
            serve(port, on_ready=lambda _: None)
    assert raised.value.exit_code == Exit.ENVIRONMENT
    assert raised.value.message == (
        f"Port {port} on 127.0.0.1 is in use; choose another, or --port 0 to be given a free one."
    )


@pytest.mark.parametrize(("port", "host", "says"), [(70_000, "127.0.0.1", "65535"), (0, "203.0.113.1", "Can't")])
def test_an_address_that_cannot_be_had_says_why(port: int, host: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        serve(port, host, on_ready=lambda _: None)
