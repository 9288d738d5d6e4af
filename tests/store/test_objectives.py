"""What objectives are counted from: the SQL gives what `hopbudget.budgets` gives of the same rows."""

import math
import random
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets.attainment.attained import CODES, NEVER, attain, count, quantile_of_counts, units
from hopbudget.budgets.attainment.objectives import Objective
from hopbudget.budgets.streams.underrun import waited_s
from hopbudget.objectives.counting import Window
from hopbudget.store import objectives as stored
from hopbudget.store.duck import Store
from hopbudget.store.narrow import Where
from hopbudget.store.objectives import Scope

START = 1_700_000_000
LIMIT_S = 0.05
Row = dict[str, Any]


def trajectory(index: int, **more: Any) -> Row:
    row = {
        "trace_id": f"{index:032x}",
        "root_span_id": "0000000000000001",
        "workload": "chat",
        "started_at": START + index,
        "duration_s": 5.0,
        "hop_count": 1,
        "model_s": 4.0,
        "work_s": 1.0,
        "paused_s": 0.0,
        "outcome": "ok",
        "complete": True,
        "intervened": False,
        "attributes": {},
    }
    return row | more


def hop(of: int, number: int, **more: Any) -> Row:
    row = {
        "trace_id": f"{of:032x}",
        "root_span_id": "0000000000000001",
        "span_id": f"{number:016x}",
        "workload": "chat",
        "hop": "answer",
        "visit": 1,
        "streamed": True,
        "final": False,
        "started_at": START + of,
        "start_s": 0.0,
        "duration_s": 2.0,
        "outcome": "ok",
    }
    return row | more


def made(trajectories: list[Row], hops: list[Row]) -> Store:
    store = Store(None)
    with store.writing() as con:
        for table, rows in (("trajectories", trajectories), ("hops", hops)):
            for row in rows:
                given = row | {"started_at": datetime.fromtimestamp(row["started_at"], UTC).replace(tzinfo=None)}
                marks = ", ".join("?" * len(given))
                con.execute(f"INSERT INTO {table} ({', '.join(given)}) VALUES ({marks})", list(given.values()))
    return store


def everything(match: dict[str, str] | None = None) -> Scope:
    return Scope(stored.scope(Where(), match or {}), 0.0, START + 1e6)


def streams(seed: int) -> tuple[list[Row], list[Row]]:
    chance = random.Random(seed)
    hops = []
    for number in range(120):
        gaps = [chance.choice([10_000, 40_000, 50_000, 50_001, 400_000]) for _ in range(chance.randint(0, 12))]
        outcome = chance.choice([*CODES, *["ok"] * 8])
        censored = bool(gaps) and outcome not in {"ok", "truncated", "failed", "refused"}
        n_source = chance.choice(["usage", "usage", "chunks"])
        recorded: Row = {"itl_us": gaps, "itl_exact": len(gaps) - censored, "itl_censored": censored} if gaps else {}
        chunks = len(gaps) + 1 - censored
        tokens = {"chunks": chunks, "output_tokens": chunks * 3, "output_tokens_source": n_source}
        name = {"hop": chance.choice(["answer", "plan"])}
        hops.append(hop(number % 17, number, outcome=outcome, **recorded, **tokens, **name))
    return [trajectory(index) for index in range(17)], hops


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [None, "plan"])
def test_gaps_are_counted_as_the_budgets_count_them(seed: int, name: str | None) -> None:
    trajectories, hops = streams(seed)
    chosen = [row for row in hops if name in (None, row["hop"])]
    alive = [row for row in chosen if CODES[row["outcome"]] != NEVER and row.get("itl_us")]
    gaps = [
        (int(row["trace_id"], 16), us / 1e6, row["itl_censored"] and index == len(row["itl_us"]) - 1)
        for row in alive
        for index, us in enumerate(row["itl_us"])
    ]
    of, value, censored = (np.array(column) for column in zip(*gaps, strict=True))
    group = np.zeros(len(of), dtype=np.int64)
    code = np.where(censored, CODES["timed_out"], CODES["ok"])
    pure = units(of, np.where(censored, np.nan, value), value, code, group)
    counted = count(pure, np.arange(17.0) + START, LIMIT_S)
    failed = sum(CODES[row["outcome"]] == NEVER for row in chosen)
    failing = failed / (failed + sum(any_counted(row) for row in alive))
    with made(trajectories, hops).reading() as con:
        counts, quantile = Window(con, everything()).counted(Objective("itl", LIMIT_S, 90, hop=name))
    for part in ("good", "slow", "left_out"):
        assert getattr(counts, part).tolist() == getattr(counted, part).tolist()
    found = attain(counts)
    assert (found.failed, found.failing_share) == (failed, pytest.approx(failing))
    assert found.share <= 1 - failing
    values = np.unique(value)
    events = np.array([np.sum(value[~censored] == v) for v in values], dtype=np.float64)
    bounds = np.array([np.sum(value[censored] == v) for v in values], dtype=np.float64)
    assert quantile == quantile_of_counts(values, events, bounds, failing, 0.9)


def any_counted(row: Row) -> bool:
    """Whether a stream has a gap that counts; one with nothing but an open gap before the limit has none."""
    whole = row["itl_us"][:-1] if row["itl_censored"] else row["itl_us"]
    return bool(whole) or row["itl_us"][-1] / 1e6 >= LIMIT_S


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("pace", [8.0, 71.0])
def test_waits_are_those_of_the_budgets(seed: int, pace: float) -> None:
    trajectories, hops = streams(seed)
    a_chunk = {}
    for name in ("answer", "plan"):
        known = [row for row in hops if row["hop"] == name and row["output_tokens_source"] == "usage" and row["chunks"]]
        a_chunk[name] = sum(row["output_tokens"] for row in known) / sum(row["chunks"] for row in known)
    expected = {}
    for row in hops:
        own = row["output_tokens"] / row["chunks"] if row["chunks"] and row["output_tokens_source"] == "usage" else None
        per_chunk = own if own is not None else a_chunk[row["hop"]]
        gaps = np.array(row.get("itl_us", [])) / 1e6
        nothing = not len(gaps) and row["chunks"] != 1
        expected[row["span_id"]] = math.nan if nothing else waited_s(gaps, per_chunk / pace)
    with made(trajectories, hops).reading() as con:
        found = stored.waits(con, everything(), pace)
    assert sorted(found["wait_s"]) == pytest.approx(sorted(expected.values()), abs=1e-9, nan_ok=True)


def test_tokens_counted_in_chunks_enter_no_pace() -> None:
    seen = {"ttft_s": 0.2, "tpot_s": 0.03, "output_tokens": 40}
    hops = [
        hop(0, 1, **seen, output_tokens_source="usage"),
        hop(0, 2, **seen, output_tokens_source="chunks"),
        hop(0, 3, **(seen | {"output_tokens": 1, "tpot_s": None}), output_tokens_source="usage"),
    ]
    with made([trajectory(0)], hops).reading() as con:
        counts, quantile = Window(con, everything()).counted(Objective("tpot", 0.05, 90))
    assert (counts.good.tolist(), counts.unmeasured.tolist(), quantile) == ([1], [2], 0.03)


def test_a_stream_that_was_cut_was_at_most_as_slow_as_it_seemed_then() -> None:
    seen = {"ttft_s": 0.5, "tpot_s": 0.01, "output_tokens_source": "usage", "outcome": "timed_out"}
    hops = [
        hop(0, 1, **seen, output_tokens=11, duration_s=10.5),  # ten tokens, then silence: 1 s a token until then
        hop(0, 2, **seen, output_tokens=11, duration_s=0.6),
        hop(0, 3, **(seen | {"output_tokens_source": "chunks"}), output_tokens=11, duration_s=10.5),
        hop(0, 4, **seen, output_tokens=1, duration_s=10.5),
    ]
    with made([trajectory(0)], hops).reading() as con:
        counts, _ = Window(con, everything()).counted(Objective("tpot", 0.5, 90))
    found = attain(counts)
    assert (found.good, found.slow, found.left_out, found.unmeasured) == (0, 1, 1, 2)


def test_calls_that_came_whole_have_no_first_token_and_their_failures_are_not_held_against_streams() -> None:
    hops = [
        hop(0, 1, hop="plan", streamed=False),
        hop(0, 2, hop="plan", streamed=False, outcome="failed"),
        hop(0, 3, ttft_s=0.3),
        hop(0, 4, streamed=False, outcome="failed"),  # died before it could be seen to stream
    ]
    with made([trajectory(0)], hops).reading() as con:
        counts, _ = Window(con, everything()).counted(Objective("ttft", 1.0, 90))
    assert (counts.good.tolist(), counts.failed.tolist()) == ([1], [1])


def test_a_trajectory_without_its_root_has_no_duration() -> None:
    with made([trajectory(0), trajectory(1, complete=False, duration_s=99.0)], []).reading() as con:
        counts, _ = Window(con, everything()).counted(Objective("trajectory_duration", 10.0, 90))
    assert counts.sample.sum() == 1


def test_errors_are_failures_and_time_outs_and_not_those_who_left() -> None:
    outcomes = ["ok", "truncated", "failed", "refused", "timed_out", "cancelled", "closed_by_consumer"]
    with made([trajectory(i, outcome=word) for i, word in enumerate(outcomes)], []).reading() as con:
        counts, _ = Window(con, everything()).counted(Objective("error_share", 0.1))
    found = attain(counts)
    assert (found.good, found.failed, found.slow, found.left_out) == (2, 2, 1, 2)


def test_a_window_holds_what_started_after_its_beginning_and_not_after_its_end() -> None:
    with made([trajectory(index) for index in range(5)], []).reading() as con:
        scope = Scope(stored.scope(Where(), {}), START + 1, START + 3)
        assert stored.trajectories(con, scope).started_at.tolist() == [START + 2, START + 3]


def test_a_workload_is_matched_by_name_service_and_any_attribute_at_once() -> None:
    rows = [
        trajectory(0, service="a", attributes={"region": "eu"}),
        trajectory(1, service="b", attributes={"region": "eu"}),
        trajectory(2, service="a", attributes={"region": "us"}),
        trajectory(3, service="a", attributes={"region": "eu"}, workload="voice"),
    ]
    with made(rows, []).reading() as con:
        of = everything({"name": "chat", "service": "a", "region": "eu"})
        assert len(stored.trajectories(con, of).code) == 1
        evil = everything({"region": "eu' OR '1'='1"})
        assert len(stored.trajectories(con, evil).code) == 0


def test_throughput_is_tokens_over_the_time_in_which_any_hop_ran() -> None:
    hops = [
        hop(0, 1, started_at=START, duration_s=4.0, output_tokens=30),
        hop(0, 2, started_at=START + 2, duration_s=4.0, output_tokens=30),
        hop(0, 3, started_at=START + 10, duration_s=4.0, output_tokens=40),
    ]
    with made([trajectory(0)], hops).reading() as con:
        assert stored.throughput(con, everything()) == (100, 10)


def test_the_newest_start_is_where_windows_end_and_there_is_none_of_nothing() -> None:
    with made([trajectory(0), trajectory(3)], []).reading() as con:
        assert stored.newest_at(con, stored.scope(Where(), {"name": "chat"})) == START + 3
        assert math.isnan(stored.newest_at(con, stored.scope(Where(), {"name": "voice"})))
