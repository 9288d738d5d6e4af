"""Screens of 80 columns: numbers are whole, what is shown adds up, and an id that is shown names one trajectory."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from hopbudget.budgets import Part
from hopbudget.budgets.blame.breaches import breaches
from hopbudget.render import base, deadlines
from hopbudget.render.breaches import _causes, _listed, rest_of_causes, shown_causes
from hopbudget.render.causes import _together
from hopbudget.render.report import by_group, report
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.units import seconds

Run = Callable[..., Any]
LONG = "customer-support-retrieval-rerank-step"


def screen(draw: Callable[..., None], *arguments: Any) -> str:
    """What is drawn at 80 columns."""
    out = Console(width=80, color_system=None, force_terminal=False)
    with out.capture() as caught:
        draw(out, *arguments)
    return caught.get()


def drawn(numbers: dict[str, Any]) -> str:
    return screen(report, numbers, "store")


@pytest.fixture
def numbers(hopbudget: Run, filled: Path) -> dict[str, Any]:
    """The report of the small recording, one of its hops under a long name and with a large n."""
    found: dict[str, Any] = hopbudget("report", filled, "--json").json
    row = next(row for row in found["by_hop"] if row["ttft_s"]["n"])
    row["hop"] = LONG
    row["duration_s"] = {"n": 12_345, "p50": 0.000048, "p90": 0.05, "p95": 0.000082, "p99": 0.00029}
    row["ttft_s"] = {"n": 12_345, "p50": 0.000048, "p90": 0.05, "p95": 0.000082, "p99": 0.00029}
    row["tpot_s"] = {"n": 11_111, "p50": 0.000048, "p90": 0.05, "p95": 0.000082, "p99": 0.00029}
    return found


# --- what gives way ------------------------------------------------------------------------------------------


def test_a_long_name_never_cuts_a_number(numbers: dict[str, Any]) -> None:
    rows = [line for line in drawn(numbers).splitlines() if line.startswith("customer-")]
    assert len(rows) == 2
    for row in rows:
        assert "12,345" in row
        assert all(word in row for word in ("0.048 ms", "0.082 ms", "0.29 ms"))
        assert row.count("…") == 1
        assert len(row) <= 80


def test_the_bar_gives_way_before_the_name() -> None:
    cells = [["1,200", "0.048 ms", "0.082 ms", "0.29 ms"]]
    assert base.room(["plan"], cells, 28, 22) == (4, 22)
    names, bars = base.room(["x" * 28], cells, 28, 22)
    assert (names, bars) == (28, 18)
    wide = [["1" * 20, "2" * 20]]
    names, bars = base.room(["x" * 28], wide, 28, 22)
    assert (names, bars) == (28, 8)
    names, bars = base.room(["x" * 40], wide, 40, 22)
    assert (names, bars) == (30, 6)


def test_groups_with_long_names_keep_their_numbers(hopbudget: Run, filled: Path) -> None:
    group = hopbudget("report", filled, "--json").json
    group |= {"trajectories": 1_234_567, "trajectory_s": {"p50": 0.000048, "p90": 0.000082, "p99": 0.000029}}
    said = screen(by_group, {"v" * 60: group}, "service.version")
    assert all(word in said for word in ("1,234,567", "0.048 ms", "0.082 ms", "0.029 ms"))
    assert max(map(len, said.splitlines())) <= 80


# --- what is counted -----------------------------------------------------------------------------------------


def test_n_of_hops_and_of_streams_is_what_their_quantiles_are_over(hopbudget: Run, filled: Path) -> None:
    found = hopbudget("report", filled, "--json").json
    row = next(row for row in found["by_hop"] if row["ttft_s"]["n"])
    row["n"], row["duration_s"]["n"], row["ttft_s"]["n"], row["tpot_s"]["n"] = 9_999, 8_888, 7_777, 6_666
    said = drawn(found)
    assert "9,999" not in said
    hops, streams = said.split("Streams: first token and pace")
    assert f"{row['hop']} " in hops
    assert "8,888" in hops
    assert "7,777" in streams
    assert f"With a TPOT: {row['hop']} 6,666" in " ".join(streams.split())


def test_where_every_stream_has_a_pace_nothing_is_said_of_it(hopbudget: Run, filled: Path) -> None:
    found = hopbudget("report", filled, "--json").json
    for row in found["by_hop"]:
        row["tpot_s"]["n"] = row["ttft_s"]["n"]
    assert "With a TPOT" not in drawn(found)


# --- what adds up --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(filled: Path) -> Any:
    """Breaches with causes too small for a row of their own."""
    with Store(filled).reading() as con:
        profile = queries.profile(con, queries.Where())
    b = breaches(profile, 4.0)
    causes = [
        replace(cause, share=of_excess, seconds=of_excess * b.excess_s, main_in=0)
        for cause, of_excess in zip(b.causes[:5], (0.905, 0.104, -0.003, -0.004, -0.002), strict=True)
    ]
    return replace(b, causes=causes)


def test_the_shares_on_the_screen_add_up(found: Any) -> None:
    said = screen(_causes, found)
    shares = re.findall(r"^\S.*?(-?[\d.]+)% ", said.split("most in")[1], re.MULTILINE)
    assert len(shares) == 3
    assert sum(map(float, shares)) == pytest.approx(100.0, abs=0.16)
    assert "rest" in said


def test_rest_is_what_has_no_row_and_is_left_out_where_it_is_nothing(found: Any) -> None:
    rest = rest_of_causes(found)
    assert rest is not None
    assert rest[0] + sum(cause.share for cause in shown_causes(found)) == pytest.approx(1.0)
    assert rest_of_causes(replace(found, causes=found.causes[:2])) is None


def test_the_causes_of_many_add_up_in_explain_too() -> None:
    sizes = (100.0, -0.03, -0.04, -0.045)
    kinds = ("tools", "pace", "answers", "prompt")
    parts = [
        Part(kind=kind, name="a", seconds=size, count=None)  # type: ignore[arg-type]
        for kind, size in zip(kinds, sizes, strict=True)
    ]
    said = screen(_together, [SimpleNamespace(parts=parts, excess_s=sum(sizes))])
    assert re.search(r"rest +-0\.1%", said)


# --- one name, one thing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "called"),
    [
        ({"completion": 1}, "completion 8"),
        ({"deadline": 6}, "deadline 8"),
        ({"deadline": 6, "completion": 2}, "completion or deadline 8"),
    ],
)
def test_decisions_are_called_as_the_limits_that_ended_their_hops(limits: dict[str, int], called: str) -> None:
    held = {
        "with_deadline": 0, "limits": limits, "beyond": {}, "refused": 0, "intervened": 8, "trajectories": 20,
        "decisions": {"completion": 8},
    }  # fmt: skip
    said = " ".join(screen(deadlines.over_many, held).split())
    assert f"leaves them out): {called}" in said


# --- ids -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "digits"),
    [
        (["a" * 32, "b" * 32], 12),
        (["a" * 32, "a" * 32], 12),
        (["a" * 12 + "b" * 20, "a" * 12 + "c" * 20], 13),
        (["0" * 16 + "ab" * 8, "0" * 16 + "ac" * 8], 28),
        (["0" * 31 + "1", "0" * 31 + "2"], 32),
        (["00" + "a" * 30], 12),
        ([], 12),
    ],
)
def test_ids_are_cut_where_they_still_differ(ids: list[str], digits: int) -> None:
    assert base.id_digits(ids) == digits


def test_explain_takes_the_padded_ids_that_it_shows(hopbudget: Run) -> None:
    at = 1_700_000_000_000_000_000
    spans = []
    for number in range(1, 6):
        times = {"startTimeUnixNano": str(at), "endTimeUnixNano": str(at + number * 1_000_000_000)}
        root = {"traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "bot", **times}
        chat = {**root, "spanId": f"{100 + number:016x}", "parentSpanId": root["spanId"], "name": "chat m"}
        chat["attributes"] = [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]  # type: ignore[assignment]
        spans += [root, chat]
    lines = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "s"}, "spans": spans}]}]}
    Path("runs.jsonl").write_text(json.dumps(lines))
    said = hopbudget("explain", "runs.jsonl", "--slowest", "3").out
    ids = re.findall(r"^(0{12}\w+) ", said, re.MULTILINE)
    assert ids == [f"{number:032x}" for number in (5, 4, 3)]
    assert max(map(len, said.splitlines())) <= 80
    assert hopbudget("explain", "runs.jsonl", ids[0]).code == 0


def test_late_ones_with_long_ids_keep_their_seconds(found: Any, filled: Path) -> None:
    with Store(filled).reading() as con:
        profile = queries.profile(con, queries.Where())
    profile.trajectories.trace_id[:] = [f"{row + 1:032x}" for row in range(len(profile.trajectories.trace_id))]
    said = screen(_listed, SimpleNamespace(found=found, profile=profile))
    rows = re.findall(r"^(0{12}\w{20}) .*", said, re.MULTILINE)
    assert len(rows) == min(10, found.late)
    for late in found.trajectories[:10]:
        assert f" {seconds(late.seconds, signed=True)} " in said
    assert max(map(len, said.splitlines())) <= 80
