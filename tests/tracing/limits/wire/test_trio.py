"""Under trio nothing is cancelled: requests and pulls are held as in sync code."""

from typing import Any

import pytest

import hopbudget as hb

trio = pytest.importorskip("trio")
openai = pytest.importorskip("openai", minversion="3")

MESSAGES: Any = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("behaviour", "limits", "error"),
    [
        ("no_headers", {"first_token_s": 0.1}, hb.FirstTokenTimeout),
        ("silence", {"first_token_s": 0.1, "completion_s": 9.0}, hb.FirstTokenTimeout),
        ("trickle", {"completion_s": 0.2}, hb.CompletionTimeout),
    ],
)
def test_a_socket_waits_no_longer_than_what_is_left(
    server: Any, spans: Any, behaviour: str, limits: Any, error: type[Exception]
) -> None:
    async def main() -> None:
        url = f"http://127.0.0.1:{server.port('openai', behaviour)}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="k", timeout=30.0, max_retries=2) as client:
            with hb.hop("answer", enforce="deadline", **limits):
                async for _ in await client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
                    pass

    with pytest.raises(error) as raised:
        trio.run(main)
    assert raised.value.elapsed_s < 9.0, "it waited for the last of the limits"  # type: ignore[attr-defined]
    assert spans.get_finished_spans()[0].attributes["hopbudget.outcome"] == "timed_out"
    assert server.settled() == 0


def test_its_own_time_outs_are_its_own(server: Any, spans: Any) -> None:
    async def main() -> bool:
        with trio.move_on_after(0.1) as scope, hb.hop("answer", enforce="deadline", completion_s=30.0):
            await trio.sleep_forever()
        return bool(scope.cancelled_caught)

    assert trio.run(main)
    assert spans.get_finished_spans()[0].attributes["hopbudget.outcome"] == "cancelled"
