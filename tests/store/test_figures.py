"""What the pages show is what `budgets` says of the same rows."""

import numpy as np
import pytest

from hopbudget.budgets import Profile
from hopbudget.budgets.attainment import spread
from hopbudget.demo import sample
from hopbudget.store import attributes, figures, queries
from hopbudget.store.duck import Store

RESEARCH = queries.Where(workload="research")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("figures")
    (folder / "runs.jsonl").write_bytes(b"".join(sample.lines(sample.runs(200, 1_767_225_600.0))))
    filled = Store(folder / "traces.duckdb")
    filled.import_paths([folder / "runs.jsonl"])
    return filled


@pytest.fixture(scope="module")
def profile(store: Store) -> Profile:
    with store.reading() as con:
        return queries.profile(con, RESEARCH)


@pytest.mark.parametrize("metric", ["duration_s", "ttft_s", "tpot_s"])
@pytest.mark.parametrize("narrowed", [False, True])
def test_spreads_of_hops_are_those_of_budgets(
    store: Store, profile: Profile, metric: figures.Metric, narrowed: bool
) -> None:
    where, wanted = RESEARCH, profile
    if narrowed:
        where = queries.Where("research", {"app.region": "eu"})
        with store.reading() as con:
            wanted = queries.profile(con, where)
    with store.reading() as con:
        found = figures.hop_spreads(con, where, metric)
    expected = spread.hop_spreads(wanted, metric)
    assert [s.name for s in found] == [s.name for s in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.n, ours.left_out) == (theirs.n, theirs.left_out)
        assert (ours.p50, ours.p90, ours.p99) == pytest.approx((theirs.p50, theirs.p90, theirs.p99))
        if ours.n >= spread.DOTS:
            assert ours.dots == pytest.approx(theirs.dots)


def test_spreads_of_work_and_of_trajectories_are_those_of_budgets(store: Store, profile: Profile) -> None:
    with store.reading() as con:
        works, whole = figures.work_spreads(con, RESEARCH), figures.trajectory_spread(con, RESEARCH)
    assert [(s.name, s.n) for s in works] == [(s.name, s.n) for s in spread.work_spreads(profile)]
    expected = spread.trajectory_spread(profile)
    assert whole is not None
    assert expected is not None
    assert (whole.n, whole.left_out, whole.p90) == (expected.n, expected.left_out, pytest.approx(expected.p90))


def test_the_trend_holds_every_complete_trajectory_once(store: Store, profile: Profile) -> None:
    with store.reading() as con:
        size_s, points = figures.trend(con, RESEARCH)
    assert sum(point.n for point in points) == len(profile)
    assert sum(point.failed for point in points) == np.count_nonzero(profile.trajectories.outcome == "failed")
    assert all(point.at.timestamp() % size_s == 0 for point in points)
    first = points[0]
    started = profile.trajectories.started_at
    inside = (started >= first.at.timestamp()) & (started < first.at.timestamp() + size_s)
    well = inside & (profile.trajectories.outcome == "ok")
    assert first.p50_s == pytest.approx(float(np.median(profile.trajectories.duration_s[well])))


def test_groups_past_the_largest_are_the_others(store: Store) -> None:
    with store.reading() as con:
        _, points = figures.trend(con, RESEARCH, "gen_ai.conversation.id", most_groups=2)
    assert {point.group for point in points} <= {"others", *(p.group for p in points if p.group.startswith("session"))}
    assert len({point.group for point in points}) == 3


def test_groups_add_up(store: Store, profile: Profile) -> None:
    with store.reading() as con:
        found = figures.groups(con, RESEARCH, "app.tier")
    assert {group.name for group in found} == {"free", "pro"}
    assert sum(group.n for group in found) == len(profile)


def test_the_longest_gaps_come_first_and_name_where_they_were(store: Store) -> None:
    with store.reading() as con:
        rows = figures.stalled(con, RESEARCH, 5)
        hop = figures.stream(con, rows[0]["trace_id"], rows[0]["span_id"])
    assert [row["longest_s"] for row in rows] == sorted((row["longest_s"] for row in rows), reverse=True)
    assert hop is not None
    gaps = hop["itl_us"]
    assert max(gaps) / 1e6 == rows[0]["longest_s"]
    assert gaps[rows[0]["after_chunk"] - 1] == max(gaps)


def test_streams_hold_all_gaps_of_all_that_came_to_their_end(store: Store) -> None:
    with store.reading() as con:
        streams, hops, n = figures.streams(con, RESEARCH)
        ((gaps, total),) = con.execute(
            "SELECT sum(len(itl_us)), count(*) FROM hops "
            "WHERE workload = 'research' AND outcome = 'ok' AND len(itl_us) > 0"
        ).fetchall()
    assert len(streams) == len(hops) == n == total
    assert len(streams.gaps_s) == streams.gaps.sum() == gaps


def test_a_sample_is_always_the_same_part(store: Store, profile: Profile) -> None:
    part = queries.Where("research", sample=0.3)
    with store.reading() as con:
        one, again = queries.profile(con, part), queries.profile(con, part)
    assert list(one.trajectories.trace_id) == list(again.trajectories.trace_id)
    assert 0.1 * len(profile) < len(one) < 0.6 * len(profile)
    assert set(one.trajectories.trace_id) < set(profile.trajectories.trace_id)


def test_a_window_parts_them_in_two(store: Store, profile: Profile) -> None:
    at_s = float(np.median(profile.trajectories.started_at))
    with store.reading() as con:
        before = figures.count(con, queries.Where("research", until_s=at_s))
        after = figures.count(con, queries.Where("research", since_s=at_s))
    assert before + after == len(profile)
    assert min(before, after) > 0


def test_attributes_stand_in_the_order_of_the_profile(store: Store, profile: Profile) -> None:
    with store.reading() as con:
        names = attributes.keys(con, RESEARCH, 128)
        words = attributes.columns(con, RESEARCH, names)
        of_rows = {row["trace_id"]: row["attributes"] for row in queries.trajectory_rows(con, RESEARCH)}
    assert {"app.region", "app.tier", "service.version", "run"} <= set(names)
    region = [of_rows[trace_id]["app.region"] for trace_id in profile.trajectories.trace_id]
    assert list(words["app.region"]) == region


def test_attributes_that_are_the_same_everywhere_are_no_keys(store: Store) -> None:
    with store.reading() as con:
        assert "service.name" not in attributes.keys(con, RESEARCH, 128)
        assert attributes.values(con, RESEARCH, "app.region", 1)[0][0] == "eu"
