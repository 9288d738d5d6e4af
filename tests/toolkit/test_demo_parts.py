"""The demo's parts: what befalls its agent, and what its screens say."""

from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from rich.console import Console

from hopbudget.demo.board import HOPS, Board, route
from hopbudget.demo.showing import WORKLOAD, _goodbye, _what_was_seen
from hopbudget.demo.streams import TOKENS, TOTAL_S, Listener, legend, listeners, numbers, panels
from hopbudget.demo.world import SHARES, Turn, turns
from hopbudget.store.duck import Store
from hopbudget.tracing import vocabulary as v


def printed(renderable: Any) -> str:
    out = StringIO()
    Console(file=out, width=80, highlight=False).print(renderable)
    return out.getvalue()


def widest(text: str) -> int:
    return max(len(line.rstrip()) for line in text.splitlines())


# --- what befalls it -----------------------------------------------------------------------------------------


def test_every_run_of_the_demo_meets_the_same_turns() -> None:
    assert turns(50) == turns(50)
    assert turns(50) != turns(50, seed=1)


def test_one_in_ten_has_a_trouble_and_every_kind_of_trouble_is_there() -> None:
    troubles = Counter(turn.trouble for turn in turns(120))
    assert sum(count for trouble, count in troubles.items() if trouble) == 12
    assert set(troubles) == {"", *SHARES}


@pytest.mark.parametrize("count", [1, 2, 7, 120, 1000])
def test_there_are_as_many_turns_as_asked_for(count: int) -> None:
    assert [turn.number for turn in turns(count)] == list(range(count))


def test_a_trouble_changes_only_what_it_is_about() -> None:
    seen = {turn.trouble: turn for turn in turns(120)}
    assert seen["looks again and again"].rounds >= 3
    assert seen["long answer"].answer_tokens > 100
    assert seen["slow tool"].search_s > 2.5
    slow = seen["slow first token"]
    assert slow.knobs(slow.slow_hop) == {"x-hopbudget-ttft": f"{slow.first_token_s:.3f}"}
    assert slow.knobs("read") == {}
    assert seen["breaks off"].knobs("answer") == {"x-hopbudget-row": "A6"}
    assert all(seen[""].knobs(hop) == {} for hop in HOPS)


def test_every_call_of_a_turn_has_dice_of_its_own() -> None:
    turn = Turn(3, "night trains")
    seeds = [turn.seed(hop, visit) for hop in HOPS for visit in (1, 2, 3)]
    assert len(set(seeds)) == len(seeds)
    assert turn.seed("read", 2) == Turn(3, "night trains").seed("read", 2)


def test_one_trajectory_alone_has_no_slowest(recorded_runs: Path, tmp_path: Path) -> None:
    line = recorded_runs.read_text().splitlines()[0]
    named = line.replace('"stringValue": "research"', f'"stringValue": "{WORKLOAD}"').replace('"v0"', '"demo-run"')
    (tmp_path / "one.jsonl").write_text(named)
    store = Store(tmp_path / "one.duckdb")
    store.import_paths([tmp_path / "one.jsonl"])
    out = Console(file=StringIO(), width=80)
    seen = _what_was_seen(out, store, "demo-run")
    assert seen.slowest is None
    _goodbye(out, store.path, seen)


# --- two answers ---------------------------------------------------------------------------------------------


def test_both_answers_are_scripted_to_end_together() -> None:
    for listener in listeners():
        knobs = listener.knobs
        end_s = float(knobs["x-hopbudget-ttft"]) + (TOKENS - 1) * float(knobs["x-hopbudget-tpot"])
        assert end_s == pytest.approx(TOTAL_S)
    assert [listener.first_token_s for listener in listeners()] == [0.3, 2.8]


def test_a_panel_says_whether_it_is_silent_writing_or_done() -> None:
    silent, writing = listeners()
    writing.hear("")
    assert writing.heard_s is None
    writing.hear("Two")
    writing.hear(" answers")
    both = printed(panels([silent, writing]))
    assert "silence" in both
    assert "writing" in both
    assert "Two answers" in both
    writing.ended = True
    assert "all there after" in printed(panels([silent, writing]))
    assert widest(both) <= 80


def test_the_panels_keep_their_size_while_the_text_grows() -> None:
    listener = Listener("hop", "title", 0.3)
    empty = printed(panels([listener, listener]))
    listener.hear("word " * 50)
    assert len(printed(panels([listener, listener])).splitlines()) == len(empty.splitlines())


def test_the_numbers_are_those_of_the_recorded_hops() -> None:
    at_once, late = listeners()
    hops = [
        {"hop": late.hop, "ttft_s": 2.8, "tpot_s": 0.004, "e2e_s": 3.0, "itl_us": [4000, 4000, 5000]},
        {"hop": at_once.hop, "ttft_s": 0.3, "tpot_s": 0.05, "e2e_s": 3.0, "itl_us": [50_000, 50_000, 51_000]},
    ]
    text = printed(numbers(hops, [at_once, late]))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows[1:] == [
        "starts at once 300 ms 50.0 ms 50.0 ms 50.9 ms 3.00 s ░░████████████████",
        "starts late 2.80 s 4.00 ms 4.00 ms 4.90 ms 3.00 s ░░░░░░░░░░░░░░░░░█",
    ]
    assert widest(text) <= 80
    assert "silence" in printed(legend())


# --- the board -----------------------------------------------------------------------------------------------


def test_the_board_counts_what_runs_and_what_is_done() -> None:
    board = Board(2)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(board)
    tracer = provider.get_tracer("test")
    trajectory = tracer.start_span("invoke_agent a", attributes={v.OPERATION: v.INVOKE_AGENT})
    reads = [tracer.start_span("chat", attributes={v.HOP: "read"}) for _ in range(3)]
    tracer.start_span("execute_tool search", attributes={v.OPERATION: v.EXECUTE_TOOL}).end()
    reads[0].end()
    lines = {line.split()[0]: line for line in printed(board).splitlines() if line.strip()}
    assert lines["read"].split() == ["read", "●●", "1", "done"]
    assert lines["tools"].split() == ["tools", "1", "done"]
    assert "0/2" in lines["trajectories"]
    trajectory.end()
    assert "1/2" in printed(board)
    assert (board.hops, board.works) == (1, 1)


def test_the_board_and_the_route_fit_a_terminal() -> None:
    board = Board(120)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(board)
    for _ in range(300):
        provider.get_tracer("test").start_span("chat", attributes={v.HOP: "search-queries"})
    assert widest(printed(board)) <= 80
    assert widest(printed(route())) <= 80
    assert len(printed(route()).splitlines()) == 1
