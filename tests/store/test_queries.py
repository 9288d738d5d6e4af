"""What can be asked of a store, on a few trajectories whose numbers are known."""

import math
from pathlib import Path
from typing import Any

import pytest

from hopbudget.errors import Exit, UserError
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.store.open import open_source
from hopbudget.store.queries import Where


@pytest.fixture
def filled(make: Any, tmp_path: Path) -> Store:
    """Two trajectories of `bot` (10 s and 20 s), a failed one (30 s), one without a root, and one of `other`."""
    spans = []
    for trace, end, seed in (("t1", 10, "a"), ("t2", 20, "b")):
        spans += [
            make.agent("bot", 0, end, trace=trace, attributes={"seed": seed, "hopbudget.run": f"r{seed}"}),
            make.chat("c1", 0, 4, parent="bot", trace=trace, attributes={"gen_ai.response.time_to_first_chunk": 1.0}),
            make.tool("find", 4, end - 1, parent="bot", trace=trace),
            make.chat("c2", end - 1, end, parent="bot", trace=trace, status=2),
        ]
    spans.append(make.agent("bot", 0, 30, trace="t3", status=2))
    spans.append(make.chat("c1", 0, 5, parent="lost", trace="t4"))
    spans += [make.agent("other", 5, 7, trace="t5"), make.chat("c1", 5, 6, parent="other", trace="t5")]
    store = Store(None)
    result = store.import_paths([make.file(tmp_path / "a.jsonl", spans)])
    assert result.rejected == []
    return store


def test_plain_quantiles_leave_out_failures_and_trajectories_without_a_root(filled: Store) -> None:
    with filled.reading() as con:
        numbers = queries.report(con, Where())
    assert (numbers["trajectories"], numbers["incomplete"], numbers["hops"]) == (5, 1, 6)
    assert numbers["outcomes"] == {"ok": 4, "failed": 2}
    assert numbers["trajectory_s"]["n"] == 1
    assert numbers["trajectory_s"]["p90"] == 2
    assert numbers["hop_s"] == {"n": 4, "p50": 4.0, "p90": 4.7, "p95": 4.85, "p99": 4.97}


def test_the_work_share_is_over_complete_trajectories(filled: Store) -> None:
    with filled.reading() as con:
        numbers = queries.report(con, Where(workload="bot"))
    assert numbers["work_share"] == pytest.approx((5 + 15 + 30) / (10 + 20 + 30))


def test_the_time_is_split_into_first_tokens_writing_hops_unsplit_and_work(filled: Store) -> None:
    with filled.reading() as con:
        split = queries.report(con, Where(workload="bot"))["time_split"]
    assert split == {
        "first_token_s": 2.0,
        "writing_s": 6.0,
        "hop_unsplit_s": 2.0,
        "work_s": 50.0,
        "trajectories_s": 60.0,
    }


def test_hops_are_reported_by_name(filled: Store) -> None:
    with filled.reading() as con:
        (row,) = queries.report(con, Where(workload="bot"))["by_hop"]
    assert (row["hop"], row["n"], row["outcomes"]) == ("chat", 4, {"ok": 2, "failed": 2})
    assert row["duration_s"] == {"n": 2, "p50": 4.0, "p90": 4.0, "p95": 4.0, "p99": 4.0}
    assert row["ttft_s"]["n"] == 2


def test_a_report_of_nothing_has_every_key_and_no_number(filled: Store) -> None:
    with filled.reading() as con:
        nothing = queries.report(con, Where(workload="nobody"))
        something = queries.report(con, Where())
    assert nothing.keys() == something.keys()
    assert nothing["work_share"] is None
    assert nothing["ttft_s"] == {"n": 0, "p50": None, "p90": None, "p95": None, "p99": None}


def test_attributes_and_columns_filter(filled: Store) -> None:
    with filled.reading() as con:
        by_attribute = queries.report(con, Where(attributes={"seed": "b"}))
        by_column = queries.report(con, Where(attributes={"run": "rb", "outcome": "failed"}))
        by_id = queries.report(con, Where(trace_ids=[]))
    assert (by_attribute["trajectories"], by_column["trajectories"], by_id["trajectories"]) == (1, 1, 0)


def test_groups_are_the_values_of_an_attribute_the_largest_first(filled: Store) -> None:
    with filled.reading() as con:
        groups = queries.report_by(con, Where(), "seed")
    assert {name: group["trajectories"] for name, group in groups.items()} == {"(none)": 3, "a": 1, "b": 1}
    assert groups["b"]["time_split"]["work_s"] == 15


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (Where(workload="bto"), "There is no workload 'bto'. Did you mean bot?"),
        (Where(attributes={"sed": "a"}), "No trajectory has an attribute 'sed'. Did you mean seed?"),
        (Where(attributes={"seed": "zz"}), "No trajectory has seed=zz; there are a, b."),
        (
            Where(attributes={"ou": "a"}),
            "No trajectory has an attribute 'ou'; there are outcome, run, hopbudget.run, session, "
            "gen_ai.operation.name and 5 more.",
        ),
    ],
)
def test_a_mistyped_filter_is_told_with_the_nearest_names(filled: Store, where: Where, words: str) -> None:
    with filled.reading() as con, pytest.raises(UserError) as caught:
        queries.check(con, where)
    assert caught.value.message == words
    assert caught.value.exit_code == Exit.USAGE


def test_a_filter_that_is_right_passes(filled: Store) -> None:
    with filled.reading() as con:
        queries.check(con, Where(workload="bot", attributes={"seed": "a", "run": "ra"}))


def test_a_value_is_never_taken_for_sql(filled: Store) -> None:
    evil = "x' OR '1'='1"
    with filled.reading() as con:
        assert queries.report(con, Where(workload=evil, attributes={evil: evil}))["trajectories"] == 0


def test_workloads_come_with_their_counts_without_those_known_by_lost_roots_alone(filled: Store, make: Any) -> None:
    with filled.reading() as con:
        assert queries.workloads(con) == [("bot", 3), ("other", 1)]


def test_the_slowest_come_first(filled: Store) -> None:
    with filled.reading() as con:
        slowest = queries.trajectory_rows(con, Where(), slowest=2)
        over = queries.trajectory_rows(con, Where(), over_s=10)
    assert [row["duration_s"] for row in slowest] == [30, 20]
    assert {row["duration_s"] for row in over} == {20, 30}


def test_one_trajectory_with_its_hops_and_works_in_order(filled: Store, make: Any) -> None:
    with filled.reading() as con:
        detail = queries.trajectory(con, make.trace_id("t2").upper())
    assert detail["trajectory"]["duration_s"] == 20
    assert [row["start_s"] for row in detail["hops"]] == [0, 19]
    assert [row["work"] for row in detail["works"]] == ["find"]


@pytest.mark.parametrize(("prefix", "words"), [("ffff", "There is no trajectory"), ("aaaa", "more than one")])
def test_a_trace_id_that_names_none_or_several_is_told(filled: Store, prefix: str, words: str) -> None:
    with filled.reading() as con, pytest.raises(UserError, match=words):
        queries.trajectory(con, prefix)


def test_the_profile_says_nan_and_nothing_where_nothing_was_observed(filled: Store) -> None:
    with filled.reading() as con:
        profile = queries.profile(con, Where(workload="bot"), run_by="seed")
    assert list(profile.trajectories.run) == ["a", "b", ""] or set(profile.trajectories.run) == {"a", "b", ""}
    assert [math.isnan(value) for value in profile.hops.ttft_s] == [False, True, False, True]
    assert math.isnan(profile.trajectories.answer_start_s[0])
    assert len(profile.works.work) == 2


def test_an_unknown_key_for_the_run_is_told(filled: Store) -> None:
    with filled.reading() as con, pytest.raises(UserError, match="Did you mean seed"):
        queries.profile(con, Where(), run_by="seeed")


# --- what a reading command was given ------------------------------------------------------------------------


def test_without_a_name_the_default_store_is_drained_and_read(make: Any, store: Store) -> None:
    from hopbudget.store.spool import Spool, spool_folder

    assert store.path
    Spool(spool_folder(store.path)).append([make.line(make.run("t1"))], 4)
    with open_source([], store.path).reading() as con:
        assert queries.workloads(con) == [("bot", 1)]


def test_files_are_read_into_memory(make: Any, tmp_path: Path) -> None:
    make.file(tmp_path / "a.jsonl", make.run("t1"))
    with open_source([tmp_path], tmp_path / "no.duckdb").reading() as con:
        assert queries.workloads(con) == [("bot", 1)]


def test_a_store_is_told_by_its_first_bytes(make: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "named.oddly")
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    assert open_source([tmp_path / "named.oddly"], tmp_path / "no.duckdb").path == store.path


@pytest.mark.parametrize(
    ("given", "words", "code"),
    [
        ([], "There is no store at", Exit.USAGE),
        (["missing.duckdb"], "There is no store at missing.duckdb", Exit.USAGE),
        (["missing.jsonl"], "There is no file missing.jsonl", Exit.USAGE),
        (["notes.jsonl"], "Nothing could be read from notes.jsonl", Exit.NO),
        (["empty.jsonl"], "no trajectory in it", Exit.CANT_SAY),
        (["a.duckdb", "b.jsonl"], "not both", Exit.USAGE),
    ],
)
def test_what_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], words: str, code: Exit
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.jsonl").write_text("dear diary\n")
    Path("empty.jsonl").write_text("{}\n")
    with pytest.raises(UserError) as caught:
        open_source(given, Path("traces.duckdb"))
    assert words in caught.value.message
    assert caught.value.exit_code == code


def test_hops_are_listed_in_the_order_in_which_they_first_start(make: Any, tmp_path: Path) -> None:
    def hop(name: str, start: float, trace: str) -> dict[str, Any]:
        own = {"hopbudget.hop": name}
        return make.chat(f"{name}{start}", start, start + 1, parent="bot", trace=trace, attributes=own)

    spans = []
    for trace in ("t1", "t2", "t3"):
        spans += [make.agent("bot", 0, 9, trace=trace), hop("write", 7, trace)]
        spans += [hop("plan", 1, trace), *(hop("ask", at, trace) for at in (2, 4, 8))]
    store = Store(None)
    store.import_paths([make.file(tmp_path / "a.jsonl", spans)])
    with store.reading() as con:
        numbers = queries.report(con, Where())
    assert [row["hop"] for row in numbers["by_hop"]] == ["plan", "ask", "write"]


def test_reading_files_says_what_could_not_be_read(
    make: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make.file(tmp_path / "a.jsonl", make.run("t1"))
    path.write_bytes(path.read_bytes() + b"oops\n")
    open_source([path], tmp_path / "none.duckdb")
    assert f"1 line or span was left out; first: {path}:2: not JSON" in capsys.readouterr().err
