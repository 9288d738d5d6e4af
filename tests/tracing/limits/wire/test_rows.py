"""Each way a server can keep a client waiting, over real sockets: our limit is what ends it, not the client's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import terms

from .conftest import RETRY_AFTER_S


def hop(**limits: Any) -> Any:
    return hb.hop("answer", enforce="deadline", **limits)


def facts(spans: Any) -> dict[str, Any]:
    (span,) = spans.get_finished_spans()
    return dict(span.attributes)


@pytest.mark.parametrize(
    ("behaviour", "limits", "error"),
    [
        ("no_headers", {"first_token_s": 0.1}, hb.FirstTokenTimeout),
        ("no_headers", {"completion_s": 0.1}, hb.CompletionTimeout),
        ("silence", {"first_token_s": 0.1}, hb.FirstTokenTimeout),
        ("silence", {"first_token_s": 9.0, "completion_s": 0.1}, hb.CompletionTimeout),
        ("pings", {"first_token_s": 0.1, "stall_s": 9.0}, hb.FirstTokenTimeout),
        ("token_then_pings", {"first_token_s": 30.0, "stall_s": 0.1}, hb.StallTimeout),
        ("token_then_pings", {"completion_s": 0.15}, hb.CompletionTimeout),
    ],
)
def test_the_limit_ends_the_wait(spans: Any, talk: Any, behaviour: str, limits: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        talk(behaviour, hop(**limits))
    assert talk.way == "sync" or type(raised.value.__cause__).__name__ == "CancelledError"
    assert raised.value.elapsed_s >= raised.value.budget_s
    found = facts(spans)
    assert (found["hopbudget.outcome"], found["hopbudget.limit_hit"]) == ("timed_out", raised.value.limit)


def test_a_trickle_under_the_clients_read_time_out_is_ended_by_the_completion(spans: Any, talk: Any) -> None:
    with pytest.raises(hb.CompletionTimeout):
        talk("trickle", hop(completion_s=1.0), timeout_s=2.0)
    tokens = [chunk for chunk in talk.got if getattr(chunk, "type", "") != "ping"]
    assert len(tokens) >= 2, "what came is the application's"
    assert facts(spans)["hopbudget.output_tokens"] == len(tokens)


def test_the_clients_own_time_out_stays_the_clients_where_it_is_the_smaller(spans: Any, talk: Any) -> None:
    with pytest.raises(Exception, match=r"[Tt]imed out") as raised:
        talk("no_headers", hop(first_token_s=20.0), timeout_s=0.1)
    assert not isinstance(raised.value, hb.DeadlineExceeded)
    assert facts(spans)["hopbudget.outcome"] == "cancelled"


def test_a_limit_is_total_over_the_clients_retries(spans: Any, talk: Any) -> None:
    requests = talk.server.requests
    with pytest.raises(hb.CompletionTimeout):
        talk("no_headers", hop(completion_s=1.0), timeout_s=30.0, retries=3)
    assert talk.server.settled() == 0
    assert talk.server.requests == requests + 1


def test_a_wait_between_retries_ends_with_the_limit_and_at_the_latest_with_itself(spans: Any, talk: Any) -> None:
    with pytest.raises(hb.CompletionTimeout) as raised:
        talk("unavailable", hop(completion_s=1.0), retries=2)
    assert "1 attempts, " in str(raised.value)
    found = facts(spans)
    assert (found["hopbudget.outcome"], "hopbudget.attempts" in found) == ("timed_out", False)
    slept = found["hopbudget.backoff"]
    assert slept < RETRY_AFTER_S if talk.way == "async" else slept >= RETRY_AFTER_S


def test_our_own_wait_between_retries_ends_with_the_limit(spans: Any, talk: Any) -> None:
    with pytest.raises(hb.CompletionTimeout):
        talk("unavailable", hop(completion_s=1.0, retries="ours"), retries=2)
    assert facts(spans)["hopbudget.backoff"] < RETRY_AFTER_S


def test_a_connection_cut_is_the_clients_own_error(spans: Any, talk: Any) -> None:
    with pytest.raises(Exception, match=r"peer closed|[Cc]onnection|incomplete") as raised:
        talk("cut", hop(completion_s=20.0, stall_s=20.0))
    assert not isinstance(raised.value, TimeoutError)
    found = facts(spans)
    assert (found["hopbudget.outcome"], found["hopbudget.output_tokens"]) == ("failed", 1)


def test_observing_changes_nothing_and_tells_what_would_have_fired(spans: Any, talk: Any) -> None:
    hb.instrument()
    with pytest.raises(Exception, match=r"[Tt]imed out|peer|[Cc]onnection") as raised:
        talk("cut", hb.hop("answer", first_token_s=0.000_001))
    assert not isinstance(raised.value, hb.DeadlineExceeded)
    assert facts(spans)["hopbudget.limit_hit"] == "first_token"


def test_without_an_sdk_it_holds_as_well(talk: Any) -> None:
    with pytest.raises(hb.FirstTokenTimeout):
        talk("pings", hop(first_token_s=0.1))


def test_a_trajectorys_deadline_ends_a_clients_own_hop(spans: Any, talk: Any) -> None:
    hb.instrument()
    with pytest.raises(hb.CompletionTimeout, match="the trajectory's deadline"):
        talk("pings", hb.trajectory("agent", deadline_s=0.5, enforce="deadline"))
    root = next(span for span in spans.get_finished_spans() if span.name == "invoke_agent agent")
    assert root.attributes["hopbudget.intervened"] is True


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The `hopbudget.toml` of this test, which nobody has read yet."""
    found = tmp_path / "hopbudget.toml"
    monkeypatch.setenv("HOPBUDGET_CONFIG", str(found))
    terms.look_again()
    yield found
    terms.look_again()


@pytest.mark.parametrize(
    ("behaviour", "limit", "error"),
    [
        ("no_headers", "first_token", hb.FirstTokenTimeout),
        ("pings", "first_token", hb.FirstTokenTimeout),
        ("token_then_pings", "stall", hb.StallTimeout),
        ("pings", "completion", hb.CompletionTimeout),
    ],
)
def test_a_clients_own_hop_is_held_to_the_limits_of_chat_in_the_file(
    spans: Any, talk: Any, file: Path, behaviour: str, limit: str, error: type[Exception]
) -> None:
    file.write_text(f'[workloads.agent]\nenforce = "deadline"\n[workloads.agent.hops.chat]\n{limit} = "0.15s"\n')
    hb.instrument()
    with pytest.raises(error, match="hop 'chat'"):
        talk(behaviour, hb.trajectory("agent"))
    own = next(span for span in spans.get_finished_spans() if span.name == "chat m")
    assert (own.attributes["hopbudget.outcome"], own.attributes["hopbudget.limit_hit"]) == ("timed_out", limit)


def test_so_is_one_whose_reply_comes_whole(spans: Any, talk: Any, file: Path) -> None:
    file.write_text('[workloads.agent]\nenforce = "deadline"\n[workloads.agent.hops.chat]\ncompletion = "0.15s"\n')
    hb.instrument()
    talk.stream = False
    with pytest.raises(hb.CompletionTimeout, match="hop 'chat'"):
        talk("no_headers", hb.trajectory("agent"))


def test_switched_off_nothing_is_lowered_and_the_clients_own_time_out_holds(spans: Any, talk: Any) -> None:
    hb.disable()
    try:
        with pytest.raises(Exception, match=r"[Tt]imed out") as raised:
            talk("no_headers", hop(completion_s=0.01), timeout_s=0.3)
    finally:
        hb.enable()
    assert not isinstance(raised.value, hb.DeadlineExceeded)
    (span,) = spans.get_finished_spans()
    assert (span.end_time - span.start_time) / 1e9 >= 0.3, "the limit of 0.01 s shortened the client's wait"
