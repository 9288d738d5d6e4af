"""Screens of 80 columns: numbers are whole, what is shown adds up, and an id that is shown names one trajectory."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hopbudget.budgets import Part
from hopbudget.budgets.attainment.comparing import Difference
from hopbudget.budgets.backtests.bounds import Bound
from hopbudget.budgets.blame.breaches import HopShare, breaches
from hopbudget.render import base, deadlines, waterfall
from hopbudget.render.backtest import _bounds
from hopbudget.render.breaches import _causes, _hops, _listed, rest_of_causes, rest_of_hops, shown_causes, shown_hops
from hopbudget.render.causes import _longer_and_saved, _together
from hopbudget.render.comparing import comparison
from hopbudget.render.plan import _stream
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


def test_a_pace_that_was_counted_in_chunks_is_told_as_one(hopbudget: Run, recorded_runs: Path) -> None:
    lines = recorded_runs.read_text().splitlines(keepends=True)
    counted = [line.replace('"stringValue": "usage"', '"stringValue": "chunks"') for line in lines[:20]]
    Path("runs.jsonl").write_text("".join([*counted, *lines[20:]]))
    found = hopbudget("report", "runs.jsonl", "--json").json
    (answer,) = (row for row in found["by_hop"] if row["hop"] == "answer")
    assert (found["tpot_by_chunks"], answer["tpot_by_chunks"], answer["tpot_s"]["n"]) == (20, 20, 60)
    assert hopbudget("report", "runs.jsonl", "--json", "--by", "outcome").json["by"]["ok"]["tpot_by_chunks"] == 20
    told = "Tokens were counted in chunks: answer (20 of 60)."
    assert told in hopbudget("report", "runs.jsonl").out
    hopbudget("report", "runs.jsonl", "--html", "page.html")
    assert told in Path("page.html").read_text()
    against = hopbudget("report", "runs.jsonl", "--against", recorded_runs)
    assert "Tokens of 20 and 0 hops were counted in chunks" in against.out
    assert hopbudget("report", "runs.jsonl", "--against", recorded_runs, "--json").json["by_chunks_this"] == 20
    assert "counted in chunks" not in hopbudget("report", recorded_runs).out


# --- what gives way ------------------------------------------------------------------------------------------


def test_a_long_name_never_cuts_a_number(numbers: dict[str, Any]) -> None:
    rows = [line for line in drawn(numbers).splitlines() if line.startswith("customer-")]
    assert len(rows) == 2
    for row in rows:
        assert "12,345" in row
        assert all(word in row for word in ("0.048 ms", "0.082 ms", "0.29 ms"))
        assert row.count("…") == 1
        assert len(row) <= 80


def test_a_narrow_terminal_cuts_no_number_only_what_moves_has_to_fit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    assert base.console().width == 80
    assert base.console(moving=True).width == 40


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


def test_a_comparison_cuts_neither_a_number_nor_what_is_compared() -> None:
    sizes = {"this": 0.0123, "other": 0.1084, "difference": -0.0961, "low": -0.1234, "high": -0.0456}
    figures = [
        Difference("tpot_s", statistic, "customer-support-retrieval", **sizes, n_this=12_345, n_other=99_999)  # type: ignore[arg-type]
        for statistic in ("p50", "p90")
    ]
    sides = [
        SimpleNamespace(heading=f"a/store.duckdb · {'team=' + 'x' * 60} · {end}", workload="bot", profile=[1])
        for end in ("old", "new")
    ]
    found = SimpleNamespace(
        differences=figures,
        paired=False,
        clusters_this=1,
        clusters_other=1,
        left_out_this=0,
        left_out_other=0,
        by_chunks_this=0,
        by_chunks_other=0,
    )
    said = screen(comparison, SimpleNamespace(this=sides[0], other=sides[1], pair_by=None, found=found, sentence="-"))
    assert "…" not in said
    assert said.count("-96.1 ms [-123, -46] 12.3k, 100.0k") == 2
    whole = " ".join(said.split())
    assert all(words in whole for words in ("old · bot: 1 trajectory", "new · bot: 1 trajectory", "1 and 1 session "))
    assert max(map(len, said.splitlines())) <= 80


def test_coverage_by_parts_of_runs_and_by_whole_runs_are_told_apart() -> None:
    bound = Bound("point", 0.899, 0.886, 0.912, 1.0, 2948, 4, 7, 0)
    said = " ".join(screen(_bounds, SimpleNamespace(bounds=(bound,), percentile=90.0)).split())
    assert "covers: the percentile and its iid upper bound where a part of each run is learned from" in said
    without = SimpleNamespace(bounds=(replace(bound, runs=0),), percentile=90.0)
    assert "covers:" not in screen(_bounds, without)


def test_a_short_deadline_has_a_step_that_fits_it_and_no_share_of_nothing(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "50ms").out
    assert "10.0 ms more: " in said
    assert "second" not in said
    assert "nan" not in said


def test_one_is_one() -> None:
    stream = SimpleNamespace(ttft_s=0.1, tpot_s=0.01, tokens=1, tokens_percentile=None, joint=0.9)
    assert "at which 1 token fits" in screen(_stream, SimpleNamespace(stream=stream))


@pytest.mark.parametrize("inset", [0, 2])
def test_no_line_ends_between_a_number_and_its_unit_or_after_a_swatch(inset: int) -> None:
    out = base.Screen(width=20 + inset, color_system=None, force_terminal=False)
    said = Text("it took 12.5 s, then 300 ms, then 1,234 ms   ■ work  ░ wait", style="bold")
    with out.capture() as caught:
        out.print(Padding(said, (0, 0, 0, inset)) if inset else said)
    lines = caught.get().splitlines()
    assert " ".join(line.strip() for line in lines).split() == said.plain.split()
    assert [line.strip() for line in lines] == ["it took 12.5 s, then", "300 ms, then", "1,234 ms   ■ work", "░ wait"]
    assert all(line.startswith(" " * inset) for line in lines)


def test_what_is_there_to_be_typed_or_copied_stays_on_one_line(hopbudget: Run, filled: Path) -> None:
    out = base.Screen(width=80, force_terminal=False)
    command = f"  hopbudget allocate /tmp/{'x' * 60}.duckdb --workload research-agent --deadline 7s --out plan.toml"
    with out.capture() as caught:
        out.print(Text(command, style="bold"), soft_wrap=True)
    assert caught.get() == command + "\n"
    long = Path("a" * 50) / ("b" * 50 + ".toml")
    long.parent.mkdir()
    assert f"Written to {long}.\n" in hopbudget("allocate", filled, "--deadline", "p90", "--out", long).out


def test_lines_that_are_made_keep_their_styles() -> None:
    out = base.Screen(width=10, color_system="truecolor", force_terminal=True)
    with out.capture() as caught:
        out.print(Text.assemble("took 9.0 s ", ("and 300 ms over", "red")))
    red = re.findall(r"\x1b\[31m(.*?)\x1b", caught.get())
    assert " ".join(red).split() == ["and", "300", "ms", "over"]


# --- waiting ------------------------------------------------------------------------------------------------


def test_a_stream_that_never_began_is_drawn_as_waiting_and_named() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"visit": 1, "streamed": True, "ttft_s": None, "outcome": "timed_out", "started_at": at, "duration_s": 2.0}
    hops = [{**row, "hop": "ours", "source": "hopbudget"}, {**row, "hop": "theirs", "source": "langfuse"}]
    said = screen(waterfall.draw, waterfall.lines({"started_at": at}, hops, []), 2.0)
    ours, theirs, _, legend = said.splitlines()
    assert "╌" in ours
    assert "█" not in ours
    assert "█" in theirs
    assert "╌" not in theirs
    assert "╌ no first token" in legend


# --- what is counted -----------------------------------------------------------------------------------------


def test_without_colours_the_parts_of_a_bar_differ_by_their_cells(numbers: dict[str, Any]) -> None:
    bar, swatches = drawn(numbers).split("Where the time went\n")[1].split("\n\n")[0].split("\n", 1)
    used = sorted(set(bar.strip()))
    assert len(used) == len(re.findall(r"\d%", swatches)) == 4
    assert sorted(re.findall(r"([░█▒▓])\s+\w", swatches)) == used
    out = Console(width=80, color_system="truecolor", force_terminal=True)
    with out.capture() as caught:
        report(out, numbers, "store")
    assert set(re.sub(r"\x1b\[[\d;]*m", "", caught.get().split("Where the time went")[1].splitlines()[1]).strip()) == {
        "█"
    }


def test_shares_of_steps_that_ran_side_by_side_say_of_what_they_are(numbers: dict[str, Any]) -> None:
    assert "side by side" not in drawn(numbers)
    split = numbers["time_split"]
    steps_s = sum(split[key] for key in ("first_token_s", "writing_s", "hop_unsplit_s", "work_s"))
    assert steps_s == pytest.approx(split["trajectories_s"], rel=1e-3)
    split["trajectories_s"] = steps_s / 1.25
    told = f"of {seconds(steps_s, beside=steps_s / 1.25)} of steps in {seconds(steps_s / 1.25)} of trajectories: those"
    assert told in " ".join(drawn(numbers).split())


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


def test_the_largest_hops_either_way_have_a_row_and_the_others_one_together(found: Any) -> None:
    shares = (0.5, 0.3, 0.2, 0.1, 0.08, 0.06, 0.05, 0.03, 0.02, -0.34)
    names = [f"hop-{index}" for index in range(len(shares))]
    hops = tuple(HopShare(name, False, of * found.excess_s, of) for name, of in zip(names, shares, strict=True))
    many = replace(found, hops=hops)
    assert [hop.name for hop in shown_hops(many)] == [*names[:7], names[9]]
    rest = rest_of_hops(many)
    assert rest is not None and rest[0] == pytest.approx(0.05)
    rows = [line.split() for line in screen(_hops, many).splitlines() if line.startswith(("hop-", "others"))]
    assert [row[0] for row in rows] == [*names[:7], names[9], "others"]
    assert sum(float(row[1].rstrip("%")) for row in rows) == pytest.approx(100.0)


def test_the_causes_of_many_add_up_in_explain_too() -> None:
    sizes = (100.0, -0.03, -0.04, -0.045)
    kinds = ("tools", "pace", "answers", "prompt")
    parts = [part(kind, size) for kind, size in zip(kinds, sizes, strict=True)]
    said = screen(_together, [SimpleNamespace(parts=parts, excess_s=sum(sizes))])
    assert re.search(r"rest +-0\.1%", said)


def test_what_saved_time_is_drawn_lightly_on_the_same_scale() -> None:
    assert base.signed_bar(-5.0, 10.0, 8, "red").plain == "░" * 4
    assert base.signed_bar(5.0, 10.0, 8, "red").plain == "█" * 4
    assert base.signed_bar(-0.001, 10.0, 8, "red").plain == "░"
    parts = [part("tools", 6.0), part("visits", 2.0), part("pace", -3.0), part("overlap", -1.0)]
    assert _longer_and_saved(parts, 12.0, 24).plain == "█" * 16 + "░" * 8
    said = screen(_together, [SimpleNamespace(parts=parts, excess_s=4.0)])
    assert re.search(r"pace and rest +-75.0% -3.00 s ░{12} ", said)


def part(kind: str, size: float) -> Part:
    return Part(kind=kind, name="a", seconds=size, count=None)  # type: ignore[arg-type]


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
