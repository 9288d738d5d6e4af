"""The page, run by Streamlit's own test harness: what it shows is what `queries` and `budgets` say."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from hopbudget import budgets
from hopbudget.explaining import of_profile
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.units import count, seconds, share

OpenPage = Callable[..., AppTest]
Drawn = Callable[[AppTest, str], dict[str, Any]]
Marks = Callable[[dict[str, Any], str], list[dict[str, Any]]]
Figures = Callable[[AppTest], dict[str, str]]


def test_the_page_says_what_the_store_holds(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store)

    assert not opened.exception
    line = opened.caption[0].value
    assert "60 trajectories" in line
    assert "221 hops" in line
    assert "2026-01-01 00:00 to 00:59 UTC" in line
    assert "no span dropped" in line


def test_a_strip_tells_each_hops_quantiles_as_the_report_does(
    open_page: OpenPage, recorded_store: Path, drawn: Drawn
) -> None:
    opened = open_page(recorded_store)

    with Store(recorded_store).reading() as con:
        rows = queries.report(con, queries.Where(workload="research"))["by_hop"]
    told = drawn(opened, "Duration")["description"]
    for row in rows:
        times = row["duration_s"]
        assert f"{row['hop']} p50 {seconds(times['p50'])}, p90 {seconds(times['p90'])}, n {times['n']}" in told


def test_first_tokens_and_pace_are_shown_only_where_they_were_observed(
    open_page: OpenPage, recorded_store: Path, drawn: Drawn
) -> None:
    opened = open_page(recorded_store)

    for chart in ("First token", "Pace"):
        told = drawn(opened, chart)["description"]
        assert "answer p50" in told
        assert "plan" not in told


def test_the_plans_figures_are_those_of_allocate(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, figures: Figures
) -> None:
    shown = figures(open_page(recorded_store))

    plan = budgets.allocate(recorded_profile, budgets.deadline_at(recorded_profile, 90))
    assert shown[f"Meet {seconds(plan.deadline_s)}"] == share(plan.feasibility.p_deadline)
    assert shown["Deadline that 90% meet"] == seconds(plan.feasibility.min_deadline_s)
    assert shown["Keep all budgets too"] == share(plan.kept.share)
    assert shown["Verdict for 90%"] == plan.feasibility.verdict.capitalize()
    assert plan.stream is not None
    assert shown["First token within (TTFT)"] == seconds(plan.stream.ttft_s)
    assert shown["Then a token every (TPOT)"] == seconds(plan.stream.tpot_s)
    assert shown["Up to (N)"] == f"{count(plan.stream.tokens or 0)} tokens"


def test_moving_the_deadline_changes_the_budgets_and_they_still_fill_it(
    open_page: OpenPage, recorded_store: Path, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store)
    widths = []
    for deadline, deadline_s in (("p50", None), ("6s", 6.0), ("p99", None)):
        opened.select_slider(key="deadline").set_value(deadline).run()
        assert not opened.exception
        bars = marks(drawn(opened, "Budgets: "), "bar")
        assert [bar["s"] for bar in bars][1:] == pytest.approx([bar["end"] for bar in bars][:-1])
        widths.append(bars[-1]["end"])
        if deadline_s is not None:
            assert bars[-1]["end"] == pytest.approx(deadline_s)
    assert widths == sorted(set(widths))


@pytest.mark.parametrize(
    ("key", "choice"),
    [("method", "equal"), ("method", "equal_risk"), ("slots", "visit"), ("slots", "before"), ("binds", "answer")],
)
def test_how_the_time_is_split_can_be_chosen(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, drawn: Drawn, key: str, choice: str
) -> None:
    opened = open_page(recorded_store)
    opened.selectbox(key=key).set_value(choice).run()

    assert not opened.exception
    how: dict[str, Any] = {key: choice}
    deadline_s = budgets.deadline_at(recorded_profile, 90, how.get("binds", "last"))
    plan = budgets.allocate(recorded_profile, deadline_s, **how)
    told = drawn(opened, "Budgets: ")["description"]
    for slot in plan.slots:
        assert f"{slot.slot} {seconds(slot.budget_s)}" in told


def test_the_percentile_sets_the_smallest_deadline(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, figures: Figures
) -> None:
    opened = open_page(recorded_store, percentile="50")

    assert figures(opened)["Deadline that 50% meet"] == seconds(budgets.deadline_at(recorded_profile, 50))


def test_the_slowest_trajectory_comes_first(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, figures: Figures
) -> None:
    opened = open_page(recorded_store)

    assert figures(opened)["Took"] == seconds(float(recorded_profile.trajectories.duration_s.max()))


def test_choosing_a_trajectory_draws_a_line_for_each_of_its_steps(
    open_page: OpenPage, recorded_store: Path, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store)
    chosen = f"{7:032x}"
    opened.selectbox(key="trace").set_value(chosen).run()

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
    opened = open_page(recorded_store, deadline="5s")

    assert {rule["s"] for rule in marks(drawn(opened, "plan "), "rule")} == {5.0}


def test_the_causes_stand_end_to_end_and_reach_the_excess(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store)

    slowest = max(of_profile(recorded_profile), key=lambda row: row.duration_s)
    *causes, together = marks(drawn(opened, "longer "), "bar")
    assert [bar["s"] for bar in causes[1:]] == pytest.approx([bar["end"] for bar in causes[:-1]])
    assert together["s"] == 0.0
    assert together["end"] == pytest.approx(slowest.excess_s)
    assert f"{seconds(slowest.excess_s)} over the typical" in " ".join(text.value for text in opened.markdown)


def test_a_link_opens_the_same_view(open_page: OpenPage, recorded_store: Path, figures: Figures) -> None:
    first = open_page(recorded_store)
    first.select_slider(key="deadline").set_value("4s")
    first.selectbox(key="slots").set_value("visit")
    first.selectbox(key="trace").set_value(f"{11:032x}")
    first.run()
    address = {key: str(value[0] if isinstance(value, list) else value) for key, value in first.query_params.items()}

    second = open_page(recorded_store, **address)

    assert address["deadline"] == "4s"
    assert figures(second) == figures(first)
    assert second.selectbox(key="trace").value == f"{11:032x}"


def test_a_deadline_in_the_address_need_not_be_on_the_slider(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, deadline="4321ms")

    assert opened.select_slider(key="deadline").value == "4321ms"
    assert opened.subheader[0].value.startswith("4.32 s")


def test_a_link_to_what_is_not_here_says_so_and_shows_what_is(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, workload="reserch", trace="feed", deadline="soon")

    assert not opened.exception
    said = " ".join(warning.value for warning in opened.warning) + " ".join(text.value for text in opened.caption)
    for word in ("`reserch`", "`feed`", "'soon'"):
        assert word in said
    assert opened.selectbox(key="workload").value == "research"


def test_the_beginning_of_a_trace_id_is_enough(open_page: OpenPage, tmp_path: Path, write_runs: Any) -> None:
    store = write_runs(tmp_path, {"ab12": "ok", "cd34": "ok"})

    opened = open_page(store, trace="ab1")

    assert opened.selectbox(key="trace").value == "ab12".ljust(32, "0")


def test_the_list_can_be_narrowed_to_an_outcome(open_page: OpenPage, tmp_path: Path, write_runs: Any) -> None:
    store = write_runs(tmp_path, {"aa": "ok", "bb": "failed", "cc": "ok"})

    opened = open_page(store)
    opened.selectbox(key="outcome").set_value("failed").run()

    assert not opened.exception
    assert opened.selectbox(key="trace").value == "bb".ljust(32, "0")
    assert len(opened.selectbox(key="trace").options) == 1


def test_a_store_without_first_tokens_says_so(open_page: OpenPage, tmp_path: Path, write_runs: Any) -> None:
    opened = open_page(write_runs(tmp_path, {"aa": "ok", "bb": "ok"}))

    assert not opened.exception
    assert any("No first-token times were recorded" in text.value for text in opened.caption)


def test_when_everything_failed_the_page_still_stands(open_page: OpenPage, tmp_path: Path, write_runs: Any) -> None:
    opened = open_page(write_runs(tmp_path, {"aa": "failed", "bb": "failed"}))

    assert not opened.exception
    assert any("nothing to compare it with" in text.value for text in opened.caption)


def test_what_waits_in_the_spool_is_shown(open_page: OpenPage, tmp_path: Path, recorded_runs: Path) -> None:
    from hopbudget.store.spool import Spool, spool_folder

    store = tmp_path / "traces.duckdb"
    lines = recorded_runs.read_bytes().splitlines()
    Spool(spool_folder(store)).append(lines[:3], spans=3)

    assert "3 trajectories" in open_page(store).caption[0].value


def test_a_store_that_grows_is_read_again(open_page: OpenPage, tmp_path: Path, write_runs: Any) -> None:
    store = write_runs(tmp_path, {"aa": "ok", "bb": "ok"})
    opened = open_page(store)
    assert "2 trajectories" in opened.caption[0].value

    write_runs(tmp_path, {"cc": "ok"})
    opened.run()

    assert "3 trajectories" in opened.caption[0].value


def test_the_plan_can_be_downloaded(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store)

    (button,) = opened.get("download_button")
    assert "plan.toml" in button.label


def test_no_number_on_the_page_is_not_a_number(
    open_page: OpenPage, tmp_path: Path, write_runs: Any, drawn: Drawn
) -> None:
    opened = open_page(write_runs(tmp_path, {"aa": "ok", "bb": "failed", "cc": "timed_out"}))

    assert not opened.exception
    for described in ("Duration", "Trajectory times", "Budgets: ", "Budgets beside"):
        spec = drawn(opened, described)
        numbers = [value for rows in spec["rows"].values() for row in rows for value in row.values()]
        assert all(math.isfinite(number) for number in numbers if isinstance(number, float))
    assert all("nan" not in str(figure.value) for figure in opened.metric)
