"""The first page: what was recorded, the trend, where the time goes, what was promised."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import pytest
from streamlit.testing.v1 import AppTest

from hopbudget.app import data
from hopbudget.config.configuring import load
from hopbudget.render.costs import money
from hopbudget.reports import costing
from hopbudget.store import queries
from hopbudget.store.costs import charged
from hopbudget.store.duck import Store
from hopbudget.units import seconds

OpenPage = Callable[..., AppTest]
Drawn = Callable[[AppTest, str], dict[str, Any]]
Marks = Callable[[dict[str, Any], str], list[dict[str, Any]]]
Figures = Callable[[AppTest], dict[str, str]]


def captions(opened: AppTest) -> str:
    return " ".join(text.value for text in opened.caption)


def test_the_page_says_what_the_store_holds(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store)

    assert not opened.exception
    line = opened.caption[0].value
    for words in ("60 trajectories", "221 hops", "2026-01-01 00:00 to 00:59 UTC", "no span dropped"):
        assert words in line


def test_the_figures_are_those_of_the_report(open_page: OpenPage, recorded_store: Path, figures: Figures) -> None:
    shown = figures(open_page(recorded_store))

    with Store(recorded_store).reading() as con:
        numbers = queries.report(con, queries.Where(workload="research"))
    assert shown["Trajectory p90"] == seconds(numbers["trajectory_s"]["p90"])
    assert shown["TTFT p90"] == seconds(numbers["ttft_s"]["p90"])
    assert shown["Failed"] == "0.0%"


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


def test_the_trend_counts_every_complete_trajectory_once(
    open_page: OpenPage, recorded_store: Path, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store)

    ran = [row for row in marks(drawn(opened, "Trajectories and failures"), "bar") if row["n"]]
    assert sum(row["n"] for row in ran) / 2 == 60  # the same rows stand behind both kinds of bars


def test_an_attribute_groups_the_trend_and_a_table(
    open_page: OpenPage, recorded_store: Path, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store, by="run")

    assert {row["group"] for row in marks(drawn(opened, "Trend"), "point")} == {"v0", "v1", "v2"}
    (table,) = (frame for frame in opened.dataframe if "run" in frame.value.columns)
    assert list(table.value["run"]) == ["v0", "v1", "v2"]
    assert table.value["n"].sum() == 60


def test_an_attribute_filters_everything_on_the_page(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, where=["run=v1"])

    assert "20 trajectories" in opened.caption[0].value
    assert opened.query_params["where"] == "run=v1"


def test_two_filters_narrow_together(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store)
    opened.multiselect(key="where").set_value(["run=v1", "gen_ai.conversation.id=s1"]).run()

    with Store(recorded_store).reading() as con:
        where = queries.Where("research", {"run": "v1", "gen_ai.conversation.id": "s1"})
        n = queries.report(con, where)["trajectories"]
    assert f"{n} trajectories" in opened.caption[0].value


def test_a_filter_that_leaves_nothing_says_so_and_can_be_cleared(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, where=["run=v9"])

    assert not opened.exception
    assert "run=v9" in opened.info[0].value
    opened.button(key="clear-filter").click().run()
    assert "60 trajectories" in opened.caption[0].value


def test_a_filter_stays_when_another_page_is_opened(
    open_page: OpenPage, recorded_store: Path, go: Callable[[AppTest, str], AppTest]
) -> None:
    opened = go(open_page(recorded_store, where=["run=v1"]), "budgets")

    assert not opened.exception
    assert "Learned from 20 trajectories" in captions(opened)


def test_a_link_to_a_workload_that_is_not_here_says_so(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, workload="reserch")

    assert not opened.exception
    assert "`reserch`" in opened.warning[0].value
    assert opened.selectbox(key="workload").value == "research"


def test_without_a_configuration_the_page_names_the_command_that_writes_one(
    open_page: OpenPage, recorded_store: Path
) -> None:
    assert "hopbudget check --propose" in captions(open_page(recorded_store))


@pytest.mark.parametrize(("limit", "state"), [("99s", "Met"), ("10ms", "Breach")])
def test_objectives_are_judged_on_the_page(
    open_page: OpenPage, recorded_store: Path, tmp_path: Path, limit: str, state: str
) -> None:
    (tmp_path / "hopbudget.toml").write_text(
        f'[workloads.research]\nobjectives = [{{metric = "trajectory_duration", percentile = 90, limit = "{limit}"}}]\n'
    )
    opened = open_page(recorded_store)

    assert not opened.exception
    assert any(state in text.value for text in opened.markdown)


def test_a_configuration_with_a_mistake_is_told(open_page: OpenPage, recorded_store: Path, tmp_path: Path) -> None:
    (tmp_path / "hopbudget.toml").write_text('[workloads.research]\ndedline = "12s"\n')
    opened = open_page(recorded_store)

    assert not opened.exception
    assert "dedline" in opened.error[0].value


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


@pytest.mark.parametrize("name", ["overview", "breaches", "streams", "budgets"])
def test_when_everything_failed_every_page_still_stands(
    open_page: OpenPage, tmp_path: Path, write_runs: Any, name: str
) -> None:
    opened = open_page(write_runs(tmp_path, {"aa": "failed", "bb": "failed"}), name)

    assert not opened.exception
    assert all("nan" not in str(figure.value) for figure in opened.metric)


@pytest.mark.parametrize("name", ["overview", "breaches", "streams", "budgets"])
def test_every_chart_keeps_to_the_schema_and_says_what_it_shows(
    open_page: OpenPage, recorded_store: Path, name: str
) -> None:
    charts = [json.loads(chart.proto.spec) for chart in open_page(recorded_store, name).get("vega_lite_chart")]

    assert charts
    for spec in charts:
        alt.LayerChart.from_dict(spec, validate=True)
        assert len(spec["description"]) > 10


def test_costs_stand_on_the_page_where_prices_are_configured(
    open_page: OpenPage, recorded_store: Path, figures: Figures
) -> None:
    assert "Cost p50" not in figures(open_page(recorded_store))
    Path("hopbudget.toml").write_text(
        "[prices.small]\ninput = 2.0\noutput = 8.0\n[prices.large]\ninput = 3.0\noutput = 9.0\n"
    )

    opened = open_page(recorded_store, by="run")

    with Store(recorded_store).reading() as con:
        config = load(Path("hopbudget.toml"))
        whole = costing.costs(charged(con, queries.Where(workload="research")), config)
    assert whole["trajectory"]["n"] > 0
    assert figures(opened)["Cost p50"] == money(whole["trajectory"]["p50"])
    (table,) = (frame for frame in opened.dataframe if "run" in frame.value.columns)
    assert len(table.value["cost p50"]) == 3
    assert "-" not in list(table.value["cost p50"])


def test_of_very_many_the_cost_of_a_part_is_taken_and_it_says_so(
    open_page: OpenPage, recorded_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MOST_PLANNED", 30)
    Path("hopbudget.toml").write_text("[prices.small]\ninput = 2.5\noutput = 8.5\n")

    opened = open_page(recorded_store)

    assert not opened.exception
    assert ", a part of 60" in captions(opened)
