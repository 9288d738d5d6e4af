"""A library of libraries: wrapped at its functions, whether its request goes through a client of ours or its own."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import hopbudget as hb

openai = pytest.importorskip("openai", minversion="3")


@pytest.fixture
def library(openai_client: Any, open_stream: Any, script: Any, time: Any) -> Iterator[Any]:
    """A stand-in for litellm: some models through the openai client, others through a transport of its own."""
    litellm = ModuleType("litellm")

    def completion(model: str, messages: Any, **more: Any) -> Any:
        provider, _, name = model.partition("/")
        if provider == "openai":
            raw = openai_client.chat.completions.with_raw_response.create(model=name, messages=messages, **more)
            return raw.parse()
        if more.get("stream"):
            return open_stream(script)
        time.to(300)
        return {
            "choices": [{"message": {}, "finish_reason": "stop"}],
            "model": "m-1",
            "usage": {"completion_tokens": 3},
        }

    async def acompletion(model: str, messages: Any, **more: Any) -> Any:
        return litellm.completion(model, messages, **more)

    litellm.completion, litellm.acompletion = completion, acompletion  # type: ignore[attr-defined]
    hb.uninstrument()
    sys.modules["litellm"] = litellm
    hb.instrument()
    yield litellm
    hb.uninstrument()
    assert (litellm.completion, litellm.acompletion) == (completion, acompletion)
    del sys.modules["litellm"]


MESSAGES = [{"role": "user", "content": "hi"}]


def test_its_own_transports_reply_is_a_hop(recorded: Any, library: Any) -> None:
    library.completion("anthropic/m", MESSAGES)
    found = recorded.attributes()
    assert recorded.tree() == "chat m 0-300 ok"
    assert (found["gen_ai.provider.name"], found["hopbudget.output_tokens"]) == ("anthropic", 3)


def test_its_own_transports_stream_is_a_hop(recorded: Any, library: Any, script: Any) -> None:
    assert len(list(library.completion("anthropic/m", MESSAGES, stream=True))) == len(script)
    assert recorded.tree() == "chat m 0-242 ok"
    assert recorded.attributes()["hopbudget.ttft"] == pytest.approx(0.2)


async def test_a_request_through_a_client_of_ours_is_one_hop(
    recorded: Any, library: Any, wire: Any, replies: Any, scripts: Any
) -> None:
    wire.replies(replies["chat"], at=300)
    await library.acompletion("openai/m", MESSAGES)
    wire.streams(*[(ms + 1_000, item) for ms, item in scripts["chat"]], at=1_000)
    list(await library.acompletion("openai/m", MESSAGES, stream=True))
    assert recorded.tree().split("\n") == ["chat m 0-300 ok", "chat m 300-1643 ok"]
    assert recorded.spans[1].attributes["hopbudget.ttft"] == pytest.approx(1.3)


def test_inside_of_a_hop_it_is_that_hops_call(recorded: Any, library: Any, wire: Any, replies: Any) -> None:
    @hb.hop("plan")
    def plan() -> None:
        library.completion("openai/m", MESSAGES)

    @hb.hop("search")
    def search() -> None:
        library.completion("anthropic/m", MESSAGES)

    search()
    wire.replies(replies["chat"], at=500)
    plan()
    assert recorded.tree().split("\n") == ["chat m 0-300 ok", "chat m 300-500 ok"]
    assert [span.attributes["hopbudget.hop"] for span in recorded.spans] == ["search", "plan"]


def test_its_failure_is_one_failed_hop_with_the_clients_attempts(
    recorded: Any, library: Any, wire: Any, naps: list[float]
) -> None:
    for at in (10, 2_000, 4_000):
        wire.replies({"error": {"message": "busy"}}, status=503, at=at, headers={"retry-after-ms": "1000"})
    with pytest.raises(openai.InternalServerError):
        library.completion("openai/m", MESSAGES)
    assert recorded.tree() == "chat m 0-4000 failed InternalServerError"
    assert recorded.attributes()["hopbudget.attempts"] == 3
