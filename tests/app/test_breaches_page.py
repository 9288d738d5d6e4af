"""The page of breaches: causes over many, and down to one trajectory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from hopbudget import budgets
from hopbudget.budgets.blame.breaches import breaches
from hopbudget.reports.explaining import of_profile
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.units import seconds, share

OpenPage = Callable[..., AppTest]
Drawn = Callable[[AppTest, str], dict[str, Any]]
Marks = Callable[[dict[str, Any], str], list[dict[str, Any]]]
Figures = Callable[[AppTest], dict[str, str]]


def test_the_figures_are_those_of_breaches(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, figures: Figures
) -> None:
    shown = figures(open_page(recorded_store, "breaches", deadline="4s"))

    found = breaches(recorded_profile, 4.0)
    assert shown["Breached"] == share(found.share)
    assert shown["Took longer"] == str(found.late)
    assert shown["Over the typical, in all"] == seconds(found.excess_s)


def test_the_bars_of_causes_and_of_hops_add_up_to_the_excess(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store, "breaches", deadline="4s")

    found = breaches(recorded_profile, 4.0)
    for chart in ("Causes", "Where"):
        bars = marks(drawn(opened, chart), "bar")
        within = 0.0005 if chart == "Causes" else 0.02
        assert sum(bar["end"] - bar["s"] for bar in bars) == pytest.approx(found.excess_s, rel=within)


def test_the_deadline_can_be_moved_until_nobody_is_late(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, "breaches", deadline="99s")

    assert not opened.exception
    assert "No trajectory took longer" in opened.success[0].value


def test_the_configured_deadline_is_where_the_slider_starts(
    open_page: OpenPage, recorded_store: Path, tmp_path: Path
) -> None:
    (tmp_path / "hopbudget.toml").write_text('[workloads.research]\ndeadline = "4s"\n')

    assert open_page(recorded_store, "breaches").select_slider(key="deadline").value == "4s"


def test_the_slowest_trajectory_comes_first(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, figures: Figures
) -> None:
    shown = figures(open_page(recorded_store, "breaches"))

    assert shown["Took"] == seconds(float(recorded_profile.trajectories.duration_s.max()))


def test_a_trajectory_is_drawn_with_a_line_for_each_of_its_steps(
    open_page: OpenPage, recorded_store: Path, drawn: Drawn, marks: Marks
) -> None:
    chosen = f"{7:032x}"
    opened = open_page(recorded_store, "breaches", trace=chosen)

    assert not opened.exception
    with Store(recorded_store).reading() as con:
        stored = queries.trajectory(con, chosen)
    bars = [row for row in marks(drawn(opened, "plan "), "bar") if row["row"] != "all steps"]
    drawn_hops = {row["row"]: row for row in bars if row.get("kind") in ("hop", "writing")}
    assert len({row["row"] for row in bars}) == len(stored["hops"]) + len(stored["works"])
    assert sorted(row["end"] for row in drawn_hops.values()) == pytest.approx(
        sorted(hop["start_s"] + hop["duration_s"] for hop in stored["hops"])
    )
    (answer,) = (hop for hop in stored["hops"] if hop["hop"] == "answer")
    (waiting,) = (row for row in bars if row.get("kind") == "first token")
    assert waiting["end"] - waiting["s"] == pytest.approx(answer["ttft_s"])


def test_the_deadline_stands_in_the_waterfall(
    open_page: OpenPage, recorded_store: Path, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store, "breaches", deadline="5s")

    assert {rule["s"] for rule in marks(drawn(opened, "plan "), "rule")} == {5.0}


def test_the_causes_of_one_stand_end_to_end_and_reach_its_excess(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store, "breaches")

    slowest = max(of_profile(recorded_profile), key=lambda row: row.duration_s)
    *causes, together = marks(drawn(opened, "longer "), "bar")
    assert [bar["s"] for bar in causes[1:]] == pytest.approx([bar["end"] for bar in causes[:-1]])
    assert together["s"] == 0.0
    assert together["end"] == pytest.approx(slowest.excess_s)
    assert f"{seconds(slowest.excess_s)} over the typical" in " ".join(text.value for text in opened.markdown)


def test_one_that_is_its_own_reference_has_no_causes(
    open_page: OpenPage, tmp_path: Path, write_runs: Any, figures: Figures
) -> None:
    opened = open_page(write_runs(tmp_path, {"ab": "ok"}), "breaches")

    assert not opened.exception
    said = " ".join(text.value for text in opened.caption)
    assert "No causes: typical itself: nothing to compare with." in said
    assert "Compared with" not in said
    assert "+0 s" not in " ".join(text.value for text in opened.markdown)
    assert figures(opened)["Against a typical one"] == "-"
    assert "There is one trajectory so far" in opened.info[0].value
    assert not opened.success


def test_a_link_opens_the_same_view(open_page: OpenPage, recorded_store: Path, figures: Figures) -> None:
    first = open_page(recorded_store, "breaches", deadline="4s", trace=f"{11:032x}")
    address = {key: str(value[0] if isinstance(value, list) else value) for key, value in first.query_params.items()}

    second = open_page(recorded_store, "breaches", **address)

    assert address["deadline"] == "4s"
    assert address["trace"] == f"{11:032x}"
    assert figures(second) == figures(first)


def test_the_beginning_of_a_trace_id_is_enough(open_page: OpenPage, tmp_path: Path, write_runs: Any) -> None:
    store = write_runs(tmp_path, {"ab12": "ok", "cd34": "ok"})

    opened = open_page(store, "breaches", trace="ab1")

    assert opened.query_params["trace"] == "ab12".ljust(32, "0")


def test_a_link_to_a_trajectory_that_is_not_here_says_so(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, "breaches", trace="feed")

    assert not opened.exception
    assert "`feed`" in opened.warning[0].value


def test_the_list_can_be_the_newest(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, "breaches", order="newest")

    listed = next(frame.value for frame in opened.dataframe if "took" in frame.value.columns)
    assert list(listed["trajectory"])[:2] == [f"{60:032x}", f"{59:032x}"]


def test_a_configured_tracing_tool_is_linked(open_page: OpenPage, recorded_store: Path, tmp_path: Path) -> None:
    (tmp_path / "hopbudget.toml").write_text('trace_url = "https://traces.example/{trace_id}"\n')
    opened = open_page(recorded_store, "breaches", trace=f"{7:032x}")

    assert f"https://traces.example/{7:032x}" in " ".join(text.value for text in opened.caption)


def test_what_servers_told_stands_among_the_causes_with_its_interval(
    open_page: OpenPage, tmp_path: Path, drawn: Drawn, marks: Marks
) -> None:
    spans = tmp_path / "spans.json"
    spans.write_text(json.dumps([part for n in range(1, 121) for part in queued(n, 0.1 if n <= 96 else 3.0)]))
    store = tmp_path / "traces.duckdb"
    Store(store).import_paths([spans])
    opened = open_page(store, "breaches", deadline="2s")

    chart = drawn(opened, "Causes")
    assert marks(chart, "bar")[0]["name"] == "server's queue"
    assert marks(chart, "rule")[-1]["interval"] == "84.9% to 100.0%"
    assert any("told of all 24 hops of late ones" in caption.value for caption in opened.caption)


def queued(number: int, queue_s: float) -> list[dict[str, Any]]:
    """A trajectory of one call that stood so long in its server's queue."""
    began_ns, ttft_s = 1_700_000_000_000_000_000 + number * 10_000_000_000, queue_s + 0.25
    told = {"time_in_queue": queue_s, "time_in_model_prefill": 0.2, "time_to_first_token": queue_s + 0.2}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.time_to_first_chunk": ttft_s}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot"}
    engine = {f"gen_ai.latency.{name}": value for name, value in told.items()}
    spans = [("invoke_agent bot", ttft_s + 1.1, agent), ("chat m", ttft_s + 1.0, chat), ("llm_request", ttft_s, engine)]
    return [
        {"trace_id": f"{number:032x}", "span_id": f"{number * 10 + n:016x}",
         "parent_span_id": f"{number * 10 + n - 1:016x}" if n else None, "name": name, "start_time": began_ns,
         "end_time": began_ns + round(took_s * 1e9), "attributes": attributes}
        for n, (name, took_s, attributes) in enumerate(spans)
    ]  # fmt: skip
