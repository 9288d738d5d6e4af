"""`hopbudget check`: verdicts, exit codes, and what other programs read."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hopbudget.config import configuring
from hopbudget.errors import Exit
from hopbudget.objectives import checking
from hopbudget.store.duck import Store

Run = Callable[..., Any]
KEYS = {"workload", "metric", "percentile", "limit", "value", "attainment", "low", "high", "n", "failed", "state"}


def config(*objectives: str, workload: str = "research") -> Path:
    """A configuration of one workload, in the folder of the test."""
    path = Path("hopbudget.toml")
    tables = [f"[[workloads.{workload}.objectives]]\n{objective}\n" for objective in objectives]
    path.write_text("\n".join(tables) or f"[workloads.{workload}]\n")
    return path


EASY = 'metric = "trajectory_duration"\npercentile = 90\nlimit = "10min"'
HARD = 'metric = "ttft"\npercentile = 90\nlimit = "1ms"'
THIN = 'metric = "ttft"\npercentile = 99\nlimit = "10s"'


@pytest.mark.parametrize(
    ("objectives", "states", "code"),
    [
        ([EASY], ["met"], Exit.DONE),
        ([EASY, HARD], ["met", "breach"], Exit.NO),
        ([EASY, THIN], ["met", "cant_say"], Exit.CANT_SAY),
        ([THIN, HARD], ["cant_say", "breach"], Exit.NO),
    ],
)
def test_the_exit_code_is_that_of_the_worst_verdict(
    hopbudget: Run, filled: Path, objectives: list[str], states: list[str], code: Exit
) -> None:
    config(*objectives)
    said = hopbudget("check", filled, "--json")
    assert [row["state"] for row in said.json["objectives"]] == states
    assert said.code == code


def test_json_has_the_agreed_keys_and_a_store_and_files_give_the_same(
    hopbudget: Run, filled: Path, recorded_runs: Path
) -> None:
    config(EASY, HARD, THIN)
    from_store = hopbudget("check", filled, "--json").json
    assert from_store == hopbudget("check", recorded_runs, "--json").json
    for row in from_store["objectives"]:
        assert row.keys() >= KEYS
        assert row["low"] <= row["attainment"] <= row["high"]
        assert row["n"] == 60


def test_the_screen_fits_80_columns_and_names_verdict_value_interval_counts_and_budget(
    hopbudget: Run, filled: Path
) -> None:
    config(EASY, HARD, THIN)
    out = hopbudget("check", filled).out
    for words in (
        "met",
        "BREACH",
        "can't say",
        "TTFT p90 within",
        "60 requests: 0 failed, 60 too slow",
        "it takes 299",
    ):
        assert words in out
    assert "budget spent 10.0 times · burn" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_percentile_among_failures_is_worse_than_its_limit_and_null_in_json(hopbudget: Run, failing: Path) -> None:
    config('metric = "hop_duration"\npercentile = 50\nlimit = "10s"', workload="bot")
    said = hopbudget("check", failing, "--json")
    (row,) = said.json["objectives"]
    assert (row["n"], row["failed"], row["value"], row["state"]) == (256, 250, None, "breach")
    assert row["attainment"] == pytest.approx(6 / 256)
    assert row["missed_by_failing"] == pytest.approx(250 / 256)
    assert "worse than 10.0 s" in hopbudget("check", failing).out


@pytest.mark.parametrize(
    "objective",
    [
        'metric = "ttft"\npercentile = 50\nlimit = "10s"',
        'metric = "tpot"\npercentile = 50\nlimit = "10s"',
        'metric = "tokens_per_s"\npercentile = 50\nlimit = 0.001',
        'metric = "itl"\npercentile = 50\nlimit = "10s"',
        'metric = "hop_duration"\npercentile = 1\nlimit = "10s"\nmin_sample = 1',
        'metric = "underrun"\npace = 0.1\nlimit = "50%"',
        'metric = "error_share"\nhop = "answer"\nlimit = "90%"\nmin_sample = 1',
    ],
)
def test_among_250_failures_of_256_nothing_looks_good(hopbudget: Run, failing: Path, objective: str) -> None:
    config(objective, workload="bot")
    (row,) = hopbudget("check", failing, "--json").json["objectives"]
    assert row["failed"] == 250
    if "percentile = 1\n" not in objective:
        assert row["state"] == "breach"
    assert row["attainment"] <= 6 / 256


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """256 streams in one trajectory each, of which 250 failed before their first token."""
    path = tmp_path_factory.mktemp("failing") / "traces.duckdb"
    columns = "trace_id, root_span_id, workload, started_at, duration_s, outcome, complete"
    facts = "printf('%032x', i), '1', 'bot', TIMESTAMP '2026-01-01' + to_minutes(i), 1.0"
    with Store(path).writing() as con:
        con.execute(
            f"INSERT INTO trajectories ({columns}, hop_count, model_s, work_s, paused_s, intervened, attributes) "
            f"SELECT {facts}, 'ok', true, 1, 1, 0, 0, false, map([], []) FROM range(256) t(i)"
        )
        con.execute(
            "INSERT INTO hops (trace_id, root_span_id, workload, started_at, duration_s, outcome, span_id, hop, visit, "
            "streamed, final, start_s, ttft_s, tpot_s, output_tokens, output_tokens_source, chunks, itl_us, itl_exact, "
            f"itl_censored) SELECT {facts}, IF(i < 6, 'ok', 'failed'), '2', 'answer', 1, i < 6, false, 0, "
            "IF(i < 6, 0.1, NULL), IF(i < 6, 0.02, NULL), IF(i < 6, 4, NULL), IF(i < 6, 'usage', NULL), "
            "IF(i < 6, 4, NULL), IF(i < 6, [20000, 20000, 20000], NULL), IF(i < 6, 3, NULL), IF(i < 6, false, NULL) "
            "FROM range(256) t(i)"
        )
    return path


def test_one_workload_may_be_asked_for_and_an_unknown_one_is_told(hopbudget: Run, filled: Path) -> None:
    path = config(EASY)
    path.write_text(path.read_text() + path.read_text().replace("research", "other"))
    assert len(hopbudget("check", filled, "--json").json["objectives"]) == 2
    assert len(hopbudget("check", filled, "--json", "--workload", "research").json["objectives"]) == 1
    said = hopbudget("check", filled, "--workload", "reserch")
    assert said.code == Exit.USAGE
    assert "Did you mean research" in said.err


def test_a_workload_that_matches_nothing_can_t_be_told(hopbudget: Run, filled: Path) -> None:
    config(EASY, workload="nobody")
    said = hopbudget("check", filled, "--json")
    (row,) = said.json["objectives"]
    assert (said.code, row["state"], row["n"], row["value"], row["attainment"], row["low"]) == (
        3,
        "cant_say",
        0,
        None,
        None,
        None,
    )


def test_windows_end_at_the_newest_run_unless_a_time_is_given(hopbudget: Run, filled: Path) -> None:
    config(EASY + '\nwindow = "30min"\nmin_sample = 1')
    (newest,) = hopbudget("check", filled, "--json").json["objectives"]
    assert newest["n"] == 30
    (earlier,) = hopbudget("check", filled, "--json", "--at", "2026-01-01T00:10Z").json["objectives"]
    assert (earlier["n"], earlier["to"]) == (11, "2026-01-01T00:10:00Z")
    assert hopbudget("check", filled, "--at", "2026-01-01T01:10+01:00", "--json").json["objectives"][0]["n"] == 11
    said = hopbudget("check", filled, "--at", "yesterday")
    assert said.code == Exit.USAGE
    assert "'yesterday' is not a time" in said.err


def test_now_is_the_clocks(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config(EASY)
    from hopbudget.reports.reading import Selection

    def ask(now: float) -> int:
        options: Any = {"junit": None, "github": False, "as_json": True}
        return checking.check(Selection((str(filled),)), None, at="now", now=lambda: now, **options)

    newest = 1_767_225_600.0 + 59 * 60
    assert ask(newest) == Exit.DONE
    assert ask(newest + 40 * 86_400) == Exit.CANT_SAY


def test_the_time_zone_of_the_machine_changes_nothing(
    hopbudget: Run, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    config(EASY + '\nwindow = "2d"', HARD)
    said = []
    for zone in ("UTC", "America/New_York", "Pacific/Chatham"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        said.append(hopbudget("check", filled, "--json").json)
    monkeypatch.undo()
    time.tzset()
    assert said[0] == said[1] == said[2]


def test_attributes_narrow_what_is_judged(hopbudget: Run, filled: Path) -> None:
    config(EASY)
    assert hopbudget("check", filled, "--where", "run=v1", "--json").json["objectives"][0]["n"] == 20


def test_a_workload_may_be_matched_by_service(hopbudget: Run, filled: Path) -> None:
    path = config(EASY, workload="mine")
    path.write_text(path.read_text() + '\n[workloads.mine.match]\nservice = "research"\n')
    assert hopbudget("check", filled, "--json").json["objectives"][0]["n"] == 60


def test_without_objectives_on_streams_completion_and_both_speeds_are_shown(hopbudget: Run, filled: Path) -> None:
    config(EASY)
    said = hopbudget("check", filled, "--json").json
    (one,) = said["workloads"]
    assert one["completion_s"]["p50"] < one["completion_s"]["p90"]
    assert 50 < one["pace_tokens_per_s"] < 100
    assert one["throughput_tokens_per_s"] < one["pace_tokens_per_s"]
    assert "throughput" in hopbudget("check", filled).out
    config(EASY, HARD)
    assert hopbudget("check", filled, "--json").json["workloads"] == []


def test_junit_has_a_test_an_objective(hopbudget: Run, filled: Path) -> None:
    config(EASY, HARD, THIN)
    hopbudget("check", filled, "--junit", "report.xml")
    (suite,) = ElementTree.parse("report.xml").getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (
        "research",
        "3",
        "1",
        "1",
    )
    assert [[child.tag for child in case] for case in suite] == [["system-out"], ["failure"], ["skipped"]]
    assert "60 too slow" in (suite[1][0].get("message") or "")


def test_github_gets_an_error_for_a_breach_and_a_warning_for_what_can_t_be_told_on_its_line(
    hopbudget: Run, filled: Path
) -> None:
    path = config(EASY, HARD, THIN)
    lines = [line for line in hopbudget("check", filled, "--github").out.splitlines() if line.startswith("::")]
    assert len(lines) == 2
    assert lines[0].startswith("::error file=hopbudget.toml,line=6,title=research%3A TTFT p90 within 1.00 ms::BREACH: ")
    assert lines[1].startswith("::warning file=hopbudget.toml,line=11,")
    assert path.read_text().splitlines()[5] == "[[workloads.research.objectives]]"
    assert "0.0%25" in lines[0]
    said = hopbudget("check", filled, "--github", "--json")
    assert "::error" in said.err
    assert said.json["objectives"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check"], "There is no hopbudget.toml here"),
        (["check", "--config", "mine.toml"], "There is no configuration mine.toml"),
        (["check", "--propose", "--schema"], "three different questions"),
        (["check", "--out", "x.toml"], "--out goes with --propose or --schema"),
    ],
)
def test_mistakes_are_told(hopbudget: Run, filled: Path, arguments: list[str], words: str) -> None:
    said = hopbudget(*arguments, "--store", filled)
    assert said.code == Exit.USAGE
    assert words in said.err


def test_a_configuration_without_an_objective_is_told(hopbudget: Run, filled: Path) -> None:
    config()
    said = hopbudget("check", filled)
    assert said.code == Exit.CANT_SAY
    assert "holds no objective" in said.err
    assert "comments out those that too little was recorded for" in said.err


def test_every_mistake_of_the_configuration_is_told_with_its_line(hopbudget: Run, filled: Path) -> None:
    config('metric = "ttf"\npercentile = 95\nlimit = "1s"', 'metric = "ttft"\npercentile = 95\nlimit = 1')
    said = hopbudget("check", filled)
    assert said.code == Exit.USAGE
    assert "hopbudget.toml:2: metric: unknown metric 'ttf'. Did you mean ttft" in said.err
    assert "hopbudget.toml:9: limit of ttft: 1 has no unit" in said.err


def test_the_schema_is_printed_or_written(hopbudget: Run) -> None:
    printed = hopbudget("check", "--schema")
    assert printed.json["title"] == "hopbudget.toml"
    hopbudget("check", "--schema", "--out", "schema.json")
    assert json.loads(Path("schema.json").read_text()) == printed.json


def test_evaluating_gives_days_whose_counts_add_up(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = configuring.load(config(EASY))
    with Store(filled).reading() as con:
        (result,) = checking.evaluate(con, loaded)
    assert sum(day.n for day in result.days) == result.attained.n
    assert result.budget_left == pytest.approx(1)
    assert not math.isnan(result.value)


def test_a_plan_is_asked_about_instead(hopbudget: Run, filled: Path) -> None:
    hopbudget("allocate", filled, "--deadline", "p90", "--out", "plan.toml")
    said = hopbudget("check", filled, "--plan", "plan.toml")
    assert said.code in {Exit.DONE, Exit.NO, Exit.CANT_SAY}
    assert "trajectories" in said.out + said.err


def test_the_order_in_which_runs_came_changes_nothing(hopbudget: Run, recorded_runs: Path) -> None:
    config(EASY, HARD, 'metric = "tpot"\npercentile = 50\nlimit = "13ms"')
    lines = recorded_runs.read_text().splitlines()
    Path("other.jsonl").write_text("\n".join(lines[::-1]))
    assert hopbudget("check", "other.jsonl", "--json").json == hopbudget("check", recorded_runs, "--json").json


@pytest.mark.parametrize(
    ("objective", "why"),
    [
        (HARD + '\nhop = "anwser"', "no hop 'anwser'. Did you mean answer or search?"),
        ('metric = "itl"\npercentile = 90\nlimit = "1s"', "no itl was recorded"),
    ],
)
def test_where_nothing_counts_it_says_why(hopbudget: Run, filled: Path, objective: str, why: str) -> None:
    config(objective)
    assert hopbudget("check", filled, "--json").json["objectives"][0]["note"] == why
    assert f"nothing to count: {why}" in hopbudget("check", filled).out


def test_a_workload_that_nothing_has_is_told_with_the_nearest_names(hopbudget: Run, filled: Path) -> None:
    config(EASY, workload="reserch")
    said = " ".join(hopbudget("check", filled).out.split())
    assert "no trajectory of this workload in the window. Did you mean research?" in said
