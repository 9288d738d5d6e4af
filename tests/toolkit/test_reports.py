"""`report --breaches`, `--against` and `--html`: what they say can be computed again from the rows they name."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopbudget.demo import sample
from hopbudget.errors import Exit
from hopbudget.store.duck import Store

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two workloads' trajectories, some late."""
    folder = tmp_path_factory.mktemp("sample")
    (folder / "runs.jsonl").write_bytes(b"".join(sample.lines(sample.runs(300, 1_767_225_600.0))))
    store = folder / "traces.duckdb"
    Store(store).import_paths([folder / "runs.jsonl"])
    return store


def test_shares_of_causes_add_up_and_are_those_of_the_named_trajectories(hopbudget: Run, sampled: Path) -> None:
    said = hopbudget("report", sampled, "--breaches", "--deadline", "10s", "--workload", "research", "--json").json
    (research,) = said["workloads"]
    assert sum(cause["share"] for cause in research["causes"]) == pytest.approx(1.0, abs=1e-9)
    assert sum(part["share"] for part in research["parts"]) == pytest.approx(1.0, abs=1e-9)
    assert len(research["trajectories"]) == research["late"]
    assert sum(row["excess_s"] for row in research["trajectories"]) == pytest.approx(research["excess_s"])
    assert all(row["duration_s"] > 10.0 for row in research["trajectories"])


def test_the_parts_explain_gives_for_the_named_ones_are_those_that_were_summed(hopbudget: Run, sampled: Path) -> None:
    asked = ("--workload", "research")
    (research,) = hopbudget("report", sampled, "--breaches", "--deadline", "10s", *asked, "--json").json["workloads"]
    each = hopbudget("explain", sampled, "--over", "10s", *asked, "--json").json["trajectories"]
    answers = sum(p["seconds"] for row in each for p in row["parts"] if p["kind"] == "answers")
    assert len(each) == research["late"]
    assert answers == pytest.approx(next(c["seconds"] for c in research["causes"] if c["kind"] == "answers"))


def test_an_effect_is_recomputed_from_its_counts(hopbudget: Run, sampled: Path) -> None:
    (research,) = hopbudget("report", sampled, "--breaches", "--workload", "research", "--json").json["workloads"]
    for common in research["in_common"]:
        risk = common["breached_with"] / common["n_with"] - common["breached_without"] / common["n_without"]
        assert common["difference"] == pytest.approx(risk)
        assert common["low"] <= common["difference"] <= common["high"]
        assert common["breached_with"] + common["breached_without"] <= research["breached"]


def test_every_workload_has_its_own_deadline(hopbudget: Run, sampled: Path) -> None:
    rows = hopbudget("report", sampled, "--breaches", "--json").json["workloads"]
    assert {row["workload"] for row in rows} == {"research", "support"}
    assert len({row["deadline_s"] for row in rows}) == 2
    assert all(row["deadline_from"] == "p90 attained" for row in rows)


def test_the_configured_deadline_is_taken(hopbudget: Run, sampled: Path) -> None:
    Path("hopbudget.toml").write_text('[workloads.research]\ndeadline = "10s"\n')
    (research,) = hopbudget("report", sampled, "--breaches", "--workload", "research", "--json").json["workloads"]
    assert research["deadline_s"] == 10.0
    assert "hopbudget.toml" in research["deadline_from"]


def test_breaches_are_drawn_within_80_columns_with_what_can_be_turned(hopbudget: Run, sampled: Path) -> None:
    said = hopbudget("report", sampled, "--breaches", "--deadline", "10s")
    for words in ("by cause", "have in common", "What can be turned", "95% by chance"):
        assert words in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_a_deadline_nobody_missed_has_nothing_to_explain(hopbudget: Run, sampled: Path) -> None:
    said = hopbudget("report", sampled, "--breaches", "--deadline", "2h")
    assert said.code == 0
    assert "0 took longer" in said.out


def test_both_sides_figures_are_those_of_their_own_reports(hopbudget: Run, sampled: Path) -> None:
    sides = ("--where", "service.version=1.5", "--against-where", "service.version=1.4", "--workload", "research")
    said = hopbudget("report", sampled, *sides, "--json").json
    p90 = next(d for d in said["differences"] if (d["metric"], d["statistic"]) == ("trajectory_s", "p90"))
    for version, side in (("1.5", "this"), ("1.4", "other")):
        own = hopbudget(
            "report", sampled, "--where", f"service.version={version}", "--workload", "research", "--json"
        ).json
        assert p90[side] == pytest.approx(own["trajectory_s"]["p90"])
        assert p90[f"n_{side}"] == own["trajectory_s"]["n"]
    assert p90["difference"] == pytest.approx(p90["this"] - p90["other"])
    assert said["paired_by"] is None


def test_windows_can_be_compared(hopbudget: Run, sampled: Path) -> None:
    sides = ("--window", "2025-12-29..", "--against-window", "..2025-12-29", "--workload", "research")
    said = hopbudget("report", sampled, *sides, "--json").json
    whole = hopbudget("report", sampled, "--workload", "research", "--json").json["trajectories"]
    assert said["this"]["n"] + said["other"]["n"] == whole
    assert min(said["this"]["n"], said["other"]["n"]) > 0


def test_a_comparison_is_drawn_within_80_columns_and_says_what_is_beyond_chance(hopbudget: Run, sampled: Path) -> None:
    said = hopbudget("report", sampled, "--workload", "research", "--against-workload", "support")
    assert "Beyond their 95% interval: trajectory time p50" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_recorded_models_are_compared_task_by_task(hopbudget: Run, shared: Path) -> None:
    data = shared / "data"
    gpt41, gemini = (data / f"tau2-retail-{name}.otlp.jsonl.gz" for name in ("gpt41", "gemini"))
    said = hopbudget("report", gpt41, "--against", gemini, "--json").json
    assert said["paired_by"] == "tau2.task"
    assert said["clusters_this"] == 114
    p50 = next(d for d in said["differences"] if (d["metric"], d["statistic"]) == ("trajectory_s", "p50"))
    assert p50["difference"] < p50["high"] < 0
    assert np.isclose(p50["this"], 2.50, atol=0.05)
    assert np.isclose(p50["other"], 5.92, atol=0.05)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--breaches", "--by", "run"), "different reports"),
        (("--deadline", "3s"), "belongs to --breaches"),
        (("--pair-by", "task"), "belongs to --against"),
        (("--window", "yesterday"), "is no window"),
        (
            (
                "--window",
                "2026-13-01..",
            ),
            "is no date",
        ),
        (("--html", "a.html", "--json"), "--html holds the whole report"),
        (("--against-where", "run=1.4", "--pair-by", "nothing", "--workload", "research"), "can't pair them"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_2(
    hopbudget: Run, sampled: Path, arguments: tuple[str, ...], words: str
) -> None:
    said = hopbudget("report", sampled, *arguments)
    assert said.code == 2
    assert words in said.err
    assert "Traceback" not in said.err


class Page(HTMLParser):
    """Tags that stand open, and every address."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_one_whole_file_that_fetches_nothing(hopbudget: Run, sampled: Path) -> None:
    assert hopbudget("report", sampled, "--html", "report.html", "--deadline", "10s").code == 0
    text = Path("report.html").read_text()
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.addresses == []
    assert "script" not in page.seen
    assert "svg" in page.seen
    assert "url(" not in text
    for words in (
        "research",
        "support",
        "Breaches of 10.0 s",
        "have in common",
        "prefers-color-scheme",
        "@media print",
    ):
        assert words in text


def test_names_on_the_page_are_no_markup(hopbudget: Run, tmp_path: Path) -> None:
    evil = {"app.region": "<script>alert(1)</script>"}
    usual = [sample.Run(number, attributes={"app.region": "eu"}) for number in range(60)]
    late = [sample.Run(100 + number, attributes=evil, trouble="slow tool") for number in range(20)]
    (tmp_path / "runs.jsonl").write_bytes(b"".join(sample.lines([*usual, *late])))
    assert hopbudget("report", tmp_path / "runs.jsonl", "--html", "report.html").code == 0
    text = Path("report.html").read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_objectives_are_on_the_page(hopbudget: Run, sampled: Path) -> None:
    Path("hopbudget.toml").write_text(
        '[workloads.research]\nobjectives = [{metric = "ttft", percentile = 95, limit = "1s"}]\n'
    )
    hopbudget("report", sampled, "--html", "report.html")
    assert "TTFT p95 within 1.00 s" in Path("report.html").read_text()


def test_when_nearly_all_failed_the_p90_is_no_deadline_and_the_page_says_so(hopbudget: Run, tmp_path: Path) -> None:
    failed = [sample.Run(number, trouble="breaks off") for number in range(250)]
    (tmp_path / "runs.jsonl").write_bytes(b"".join(sample.lines([*failed, *(sample.Run(300 + n) for n in range(6))])))
    said = hopbudget("report", tmp_path / "runs.jsonl", "--breaches")
    assert said.code == 3
    assert "too many of them failed" in said.err
    assert hopbudget("report", tmp_path / "runs.jsonl", "--html", "report.html").code == 0
    assert "too many of them failed" in Path("report.html").read_text()
    (row,) = hopbudget("report", tmp_path / "runs.jsonl", "--breaches", "--deadline", "60s", "--json").json["workloads"]
    assert (row["breached"], row["failed"], row["n"]) == (250, 250, 256)


def test_a_deadline_below_the_typical_time_takes_no_explaining(hopbudget: Run, tmp_path: Path) -> None:
    quick = [sample.Run(number) for number in range(60)]
    (tmp_path / "runs.jsonl").write_bytes(b"".join(sample.lines([*quick, sample.Run(99, trouble="breaks off")])))
    (row,) = hopbudget("report", tmp_path / "runs.jsonl", "--breaches", "--deadline", "10ms", "--json").json[
        "workloads"
    ]
    said = hopbudget("report", tmp_path / "runs.jsonl", "--breaches", "--deadline", "10ms").out
    assert ("being late is the rule" in said) == (row["excess_s"] <= 0)


@pytest.mark.parametrize("words", [(), ("--breaches",), ("--json",), ("--html", "page.html")])
def test_a_window_with_nothing_in_it_is_said_with_what_there_is(
    hopbudget: Run, sampled: Path, words: tuple[str, ...]
) -> None:
    said = hopbudget("report", sampled, "--window", "2020-01-01..2021-01-01", *words)
    assert said.code == Exit.CANT_SAY
    assert re.search(
        r"No trajectory started in 2020-01-01..2021-01-01; without it, \d+ started from 2025-\d\d-\d\d", said.err
    )
    assert not Path("page.html").exists()
