"""Faults of connections: refusals that are counted by key, resets, and answers that never come."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.endpoint.faults import ROWS
from hopbudget.endpoint.knobs import Row, read_knobs, row_for
from hopbudget.endpoint.request import ApiError

APIS = ("chat", "completions", "responses", "messages")
NAMES = st.sampled_from([*ROWS, "cut", "headers-never", "503", "429"])
FAULTS = st.lists(st.builds(Row, NAMES, st.none() | st.integers(1, 9)), min_size=1, max_size=4)


def rows(value: str, **headers: str) -> tuple[Row, ...]:
    given = {"x-hopbudget-row": value, **{f"x-hopbudget-{name}": text for name, text in headers.items()}}
    return read_knobs(given, api="chat", streamed=True).rows


@given(FAULTS)
def test_rows_are_read_as_they_are_written(faults: list[Row]) -> None:
    written = ", ".join(row.name if row.times is None else f"{row.name}x{row.times}" for row in faults)
    assert rows(written, key="k") == tuple(faults)
    assert rows(written.lower(), key="k") == tuple(faults)


def test_requests_of_one_key_go_through_the_rows_in_turn() -> None:
    faults = rows("503x2, cutx1, A6", key="k")
    names = [row.name for number in range(6) if (row := row_for(faults, number))]
    assert names == ["503", "503", "cut", "A6", "A6", "A6"]
    assert row_for(rows("503x2", key="k"), 2) is None


@pytest.mark.parametrize("value", ["503x0", "600", "399", "x2", "", "A1,,A2", "cutx", "503 x2"])
def test_what_is_no_row_is_refused(value: str) -> None:
    with pytest.raises(ApiError, match="no row"):
        rows(value, key="k")


def test_a_counted_row_needs_a_key() -> None:
    with pytest.raises(ApiError, match="needs x-hopbudget-key"):
        rows("503x2")
    assert rows("503") == (Row("503"),)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_the_first_requests_are_refused_and_then_one_is_answered(desk: Any, api: str, stream: bool) -> None:
    headers = {"x-hopbudget-row": "503x2", "x-hopbudget-key": "one", "x-hopbudget-retry-after": "0.25"}
    answers = [await desk.post(api, headers, stream=stream) for _ in range(3)]
    assert [answer.status for answer in answers] == [503, 503, 200]
    assert answers[0].headers["retry-after"] == "0.25"
    assert "Simulated" in answers[0].json["error"]["message"]
    other = await desk.post(api, {**headers, "x-hopbudget-key": "two"}, stream=stream)
    assert other.status == 503
    records = (await desk.get("/hopbudget/sent?key=one")).json["sent"]
    assert [(sent["status"], sent["row"]) for sent in records] == [(503, "503"), (503, "503"), (200, None)]
    assert records[0]["tokens"] == 0


async def test_a_refusal_says_at_once_by_default(desk: Any) -> None:
    answer = await desk.chat({"x-hopbudget-row": "429"})
    assert (answer.status, answer.headers["retry-after"]) == (429, "0")
    assert answer.json["error"]["type"] == "rate_limit_error"


async def test_an_overloaded_messages_api_says_overloaded(desk: Any) -> None:
    answer = await desk.post("messages", {"x-hopbudget-row": "529"})
    assert (answer.status, answer.json["error"]["type"]) == (529, "overloaded_error")


@pytest.mark.parametrize("api", APIS)
async def test_cut_resets_after_three_tokens(desk: Any, api: str) -> None:
    answer = await desk.post(api, {"x-hopbudget-row": "cut"}, stream=True)
    sent = (await desk.sent())[0]
    assert (answer.status, answer.reset_at, answer.complete) == (200, 0.26, False)
    assert (sent["tokens"], sent["done_s"], sent["client_gone"]) == (3, None, False)


@pytest.mark.parametrize("stream", [True, False])
async def test_reset_comes_before_any_answer(desk: Any, stream: bool) -> None:
    answer = await desk.chat({"x-hopbudget-row": "reset"}, stream=stream)
    assert (answer.status, answer.reset_at, answer.parts) == (0, 0.0, [])
    assert (await desk.sent())[0]["status"] is None


@pytest.mark.parametrize("stream", [True, False])
async def test_headers_never_waits_until_the_client_leaves(desk: Any, stream: bool) -> None:
    answer = await desk.chat({"x-hopbudget-row": "headers-never"}, leave_after=0, stream=stream)
    assert (answer.status, answer.parts) == (0, [])
    sent = (await desk.sent())[0]
    assert (sent["status"], sent["client_gone"]) == (None, True)
    assert (await desk.get("/health")).json["running"] == 0


@pytest.mark.parametrize("api", APIS)
async def test_stall_falls_silent_after_three_tokens(desk: Any, api: str) -> None:
    answer = await desk.post(api, {"x-hopbudget-row": "stall"}, leave_after=4, stream=True)
    sent = (await desk.sent())[0]
    assert (answer.complete, sent["tokens"], sent["client_gone"]) == (False, 3, True)
    assert (await desk.get("/health")).json["running"] == 0


async def test_silence_sends_headers_alone(desk: Any) -> None:
    answer = await desk.chat({"x-hopbudget-row": "silence"}, leave_after=0, stream=True)
    assert answer.parts == []
    assert (await desk.sent())[0]["client_gone"] is True


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("row", "before"), [("pings-forever", 0), ("stall-pings", 4)])
async def test_pings_go_on_until_the_client_leaves(desk: Any, api: str, row: str, before: int) -> None:
    answer = await desk.post(api, {"x-hopbudget-row": row}, leave_after=before + 5, stream=True)
    pings = answer.parts[before : before + 5]
    ping = b'event: ping\ndata: {"type":"ping"}\n\n' if api == "messages" else b": ping\n\n"
    assert {data for _, data in pings} == {ping}
    start = 0.26 if before else 0.0
    assert [at for at, _ in pings] == pytest.approx([start + 0.05 * number for number in range(1, 6)])
    assert (await desk.get("/health")).json["running"] == 0


async def test_a_row_that_an_api_cannot_have_is_refused(desk: Any) -> None:
    for api, row in (("completions", "A11"), ("chat", "failed"), ("messages", "failed")):
        answer = await desk.post(api, {"x-hopbudget-row": row}, stream=True)
        assert answer.status == 400
        assert row in answer.json["error"]["message"]


async def test_the_record_holds_what_the_request_was(desk: Any) -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    for _ in range(2):
        await desk.chat(trace)
    await desk.chat(seed=5)
    first, second, third = await desk.sent()
    assert first["traceparent"] == trace["traceparent"]
    assert third["traceparent"] is None
    assert first["body_sha256"] == second["body_sha256"] != third["body_sha256"]
    assert first["arrived_at"] == 1_700_000_000.0


async def test_the_times_of_a_record_count_from_its_arrival_however_late_the_body_comes(desk: Any) -> None:
    app, time = desk.app, desk.time

    async def behind_a_slow_line(scope: Any, receive: Any, send: Any) -> None:
        async def slowly() -> Any:
            await time.sleep(0.25)
            return await receive()

        await app(scope, slowly, send)

    desk.app = behind_a_slow_line
    assert (await desk.chat({"x-hopbudget-row": "B"}, stream=True)).complete
    desk.app = app
    (sent,) = await desk.sent()
    assert sent["arrived_at"] == 1_700_000_000.0
    assert sent["first_token_s"] == pytest.approx(0.6)
