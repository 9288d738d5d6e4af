"""Requests and answers over ASGI, in a time of our own: every offset is exact."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

SCRIPTED = {"x-hopbudget-ttft": "0.3", "x-hopbudget-tpot": "0.02", "x-hopbudget-tokens": "3"}


async def test_a_stream_comes_at_its_scripted_times(desk: Any) -> None:
    answer = await desk.chat(SCRIPTED, stream=True)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in answer.headers
    texts = [(at, event["choices"][0]["delta"].get("content")) for at, event in answer.events]
    assert texts[0] == (0.075, "")
    assert [at for at, _ in texts[1:4]] == [0.3, 0.32, 0.34]
    assert all(text for _, text in texts[1:4])
    assert answer.events[-1][1]["choices"][0]["finish_reason"] == "stop"
    assert answer.parts[-1][1] == b"data: [DONE]\n\n"


async def test_usage_comes_last_when_asked_for_and_is_null_before(desk: Any) -> None:
    answer = await desk.chat(SCRIPTED, stream=True, stream_options={"include_usage": True})
    usages = [event["usage"] for _, event in answer.events]
    assert usages[:-1] == [None] * (len(usages) - 1)
    assert usages[-1]["completion_tokens"] == 3
    assert answer.events[-1][1]["choices"] == []


async def test_no_usage_field_unless_asked_for(desk: Any) -> None:
    answer = await desk.chat(SCRIPTED, stream=True)
    assert all("usage" not in event for _, event in answer.events)


async def test_a_plain_reply_comes_when_its_last_token_is_written(desk: Any) -> None:
    answer = await desk.chat(SCRIPTED)
    reply = answer.json
    assert answer.parts[0][0] == pytest.approx(0.36)
    assert reply["object"] == "chat.completion"
    assert len(reply["choices"][0]["message"]["content"].split()) == 3
    assert reply["usage"]["completion_tokens"] == 3


async def test_every_answer_says_that_it_is_a_simulation(desk: Any) -> None:
    stream = await desk.chat(SCRIPTED, stream=True)
    answers = [stream, await desk.chat(SCRIPTED), await desk.get("/v1/models"), await desk.get("/health")]
    assert all("simulated" in answer.headers["x-hopbudget-simulation"] for answer in answers)
    assert all(event["system_fingerprint"] == "hopbudget-simulation" for _, event in stream.events)
    assert {model["owned_by"] for model in answers[2].json["data"]} == {"hopbudget-simulation"}


async def test_a_repeated_prefix_is_cached(desk: Any) -> None:
    system = {"role": "system", "content": "You compare sources. " * 20}
    first = await desk.chat(messages=[system, {"role": "user", "content": "one"}])
    second = await desk.chat(messages=[system, {"role": "user", "content": "two"}])
    assert first.json["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert second.json["usage"]["prompt_tokens_details"]["cached_tokens"] == 109


async def test_the_same_seed_tells_the_same_story(desk_of: Callable[[int], Any]) -> None:
    once, again, other = [(await desk_of(seed).chat(stream=True)).parts for seed in (3, 3, 4)]
    times = [[at for at, _ in parts] for parts in (once, again, other)]
    assert times[0] == times[1] != times[2]


async def test_what_was_sent_can_be_asked_for(desk: Any) -> None:
    answer = await desk.chat({"x-hopbudget-row": "A10"}, stream=True)
    sent = (await desk.get(f"/hopbudget/sent/{answer.headers['x-request-id']}")).json
    assert sent["first_token_s"] == pytest.approx(0.2)
    assert sent["first_answer_s"] == pytest.approx(0.32)
    assert sent["last_token_s"] == pytest.approx(0.38)
    assert sent["done_s"] == pytest.approx(0.4)
    assert (sent["tokens"], len(sent["chunk_s"]), sent["row"], sent["client_gone"]) == (10, 10, "A10", False)
    assert (await desk.get("/hopbudget/sent")).json == {"sent": [sent]}


async def test_a_plain_reply_has_no_first_token_in_the_record(desk: Any) -> None:
    answer = await desk.chat(SCRIPTED)
    sent = (await desk.get(f"/hopbudget/sent/{answer.headers['x-request-id']}")).json
    assert (sent["tokens"], sent["first_token_s"], sent["streamed"]) == (3, None, False)


async def test_a_client_that_leaves_ends_the_stream_at_once(desk: Any) -> None:
    answer = await desk.chat({**SCRIPTED, "x-hopbudget-tokens": "30000"}, leave_after=4, stream=True)
    assert len(answer.parts) < 10
    sent = (await desk.get(f"/hopbudget/sent/{answer.headers['x-request-id']}")).json
    assert sent["client_gone"] is True
    assert sent["tokens"] < 10
    assert (await desk.get("/health")).json["running"] == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_records_are_bounded(desk: Any) -> None:
    for _ in range(1010):
        await desk.chat({"x-hopbudget-ttft": "0", "x-hopbudget-tpot": "0", "x-hopbudget-tokens": "1"})
    sent = (await desk.get("/hopbudget/sent")).json["sent"]
    assert len(sent) == 1000
    assert sent[-1]["id"].endswith("-1010")


async def test_requests_at_once_slow_each_other_down(desk_of: Callable[[int], Any]) -> None:
    alone = await desk_of(1).chat(stream=True, seed=1)
    desk = desk_of(1)
    crowd = await asyncio.gather(*(desk.chat(stream=True, seed=1) for _ in range(40)))
    assert max(answer.parts[-1][0] for answer in crowd) > alone.parts[-1][0]


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({"messages": []}, "messages", "empty"),
        ({"messages": [{"content": "x"}]}, "messages[0]", "role"),
        ({"messages": None}, "messages", "array"),
        ({"stream": "yes"}, "stream", "bool"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_completion_tokens": 0}, "max_completion_tokens", "at least 1"),
        ({"n": 2}, "n", "must be 1"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "only allowed"),
    ],
)
async def test_a_bad_request_is_400_in_openais_format(desk: Any, body: dict[str, Any], param: str, says: str) -> None:
    answer = await desk.chat(**body)
    error = answer.json["error"]
    assert answer.status == 400
    assert error["type"] == "invalid_request_error"
    assert param in error["param"]
    assert says in error["message"]


@pytest.mark.parametrize(
    ("header", "value", "says"),
    [
        ("x-hopbudget-row", "A99", "no row 'A99'"),
        ("x-hopbudget-ttft", "soon", "not a time"),
        ("x-hopbudget-ttft", "-1", "not a time"),
        ("x-hopbudget-ttft", "nan", "not a time"),
        ("x-hopbudget-tokens", "0", "at least 1"),
        ("x-hopbudget-tokens", "1000000", "whole number"),
        ("x-hopbudget-reasoning-field", "thought", "reasoning_content"),
        ("x-hopbudget-tpto", "1", "x-hopbudget-tpot"),
    ],
)
async def test_a_bad_knob_is_400_and_names_the_header(desk: Any, header: str, value: str, says: str) -> None:
    answer = await desk.chat({header: value}, stream=True)
    assert answer.status == 400
    assert answer.json["error"]["param"] == header
    assert says in answer.json["error"]["message"]


async def test_a_row_needs_a_stream(desk: Any) -> None:
    answer = await desk.chat({"x-hopbudget-row": "A1"})
    assert answer.status == 400
    assert "stream" in answer.json["error"]["message"]


async def test_what_is_not_json_is_400(desk: Any) -> None:
    answer = await desk.ask("POST", "/v1/chat/completions", b"{")
    assert answer.status == 400


async def test_an_unknown_model_is_404_and_names_those_there_are(desk: Any) -> None:
    answer = await desk.chat(model="gpt-9")
    assert answer.status == 404
    assert answer.json["error"]["code"] == "model_not_found"
    assert "sim-small" in answer.json["error"]["message"]
    assert (await desk.get("/v1/models/gpt-9")).status == 404
    assert (await desk.get("/v1/models/sim-small")).json["id"] == "sim-small"


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/chat/completions", 405), ("GET", "/v2", 404)])
async def test_no_such_route_is_an_error_object_too(desk: Any, method: str, path: str, status: int) -> None:
    answer = await desk.ask(method, path)
    assert answer.status == status
    assert path in answer.json["error"]["message"]


async def test_a_record_that_is_gone_is_404(desk: Any) -> None:
    assert (await desk.get("/hopbudget/sent/chatcmpl-sim-7-99")).status == 404
