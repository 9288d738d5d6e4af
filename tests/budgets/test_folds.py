"""What is held out together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets import Profile
from hopbudget.budgets.groups.folds import Clusters, clusters, folds, within_runs

Build = Callable[..., Profile]

sizes = st.lists(st.integers(1, 9), min_size=2, max_size=30)


def named(counts: list[int], kind: Any = "run") -> Clusters:
    code = np.repeat(np.arange(len(counts)), counts)
    return Clusters(kind, code, tuple(f"r{index}" for index in range(len(counts))))


def rows(profile_of: Build, **words: list[str]) -> Clusters:
    count = len(next(iter(words.values())))
    profile = profile_of([{key: values[i] for key, values in words.items()} for i in range(count)])
    return clusters(profile, np.arange(count))


def test_runs_are_held_out_where_there_are_several(profile_of: Build) -> None:
    found = rows(profile_of, run=["a", "b", "c", "a"], session=["1", "2", "3", "4"])
    assert (found.kind, found.n, found.names) == ("run", 3, ("a", "b", "c"))
    assert found.code[0] == found.code[3]


def test_sessions_are_where_there_are_too_few_runs(profile_of: Build) -> None:
    found = rows(profile_of, run=["a", "b"] * 3, session=["1", "2", "3", "4", "5", "1"])
    assert (found.kind, found.n) == ("session", 5)


def test_a_trajectory_without_a_session_is_a_cluster_of_its_own(profile_of: Build) -> None:
    found = rows(profile_of, session=["1", "2", "3", "4", "5", "", ""])
    assert (found.kind, found.n) == ("session", 7)


def test_single_trajectories_are_where_nothing_groups_them(profile_of: Build) -> None:
    found = rows(profile_of, session=["", "", ""])
    assert (found.kind, found.n) == ("trajectory", 3)


def test_a_period_in_the_recording_is_no_period_of_the_folds(profile_of: Build) -> None:
    profile = profile_of([{} for _ in range(300)])
    fold = folds(clusters(profile, np.arange(300)), 10)
    assert np.bincount(fold).tolist() == [30] * 10
    assert np.bincount(fold[9::10], minlength=10).max() < 10


@given(st.permutations(range(30)), st.lists(st.integers(0, 29), max_size=20))
def test_folds_of_single_trajectories_know_no_order_and_no_duplicates(
    profile_of: Build, order: list[int], again: list[int]
) -> None:
    def dealt(indices: list[int]) -> dict[str, int]:
        profile = profile_of([{"trace_id": f"{index:032x}"} for index in indices])
        fold = folds(clusters(profile, np.arange(len(indices))), 10)
        return dict(zip(profile.trajectories.trace_id, fold.tolist(), strict=True))

    assert dealt([*order, *again]) == dealt(list(range(30)))


def test_equal_trajectories_are_one_cluster(profile_of: Build) -> None:
    profile = profile_of([{}] * 4)
    found = clusters(profile, np.arange(4), np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 5.0], [1.0, 3.0]]))
    assert found.n == 3
    assert found.code.tolist() == [1, 1, 0, 2]


def test_runs_can_be_looked_past(profile_of: Build) -> None:
    profile = profile_of([{"run": str(i % 3), "session": str(i)} for i in range(9)])
    assert within_runs(profile, np.arange(9)).kind == "session"


@given(sizes)
def test_no_cluster_is_ever_in_two_folds(counts: list[int]) -> None:
    found = named(counts)
    fold = folds(found)
    assert all(len(set(fold[found.code == cluster])) == 1 for cluster in range(found.n))
    assert set(fold) == set(range(int(fold.max()) + 1))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=10))
def test_few_clusters_are_each_held_out_alone(counts: list[int]) -> None:
    assert len(set(folds(named(counts)))) == len(counts)


@given(st.lists(st.integers(1, 9), min_size=11, max_size=40))
def test_many_are_dealt_into_folds_of_about_equal_size(counts: list[int]) -> None:
    size = np.bincount(folds(named(counts)), minlength=5)
    assert len(size) == 5
    assert size.max() - size.min() <= max(counts)


def test_single_trajectories_are_dealt_in_order_of_their_content() -> None:
    found = Clusters("trajectory", np.arange(12), ("",) * 12)
    assert folds(found, 3).tolist() == [0, 1, 2] * 4


@pytest.mark.parametrize("wanted", [2, 4])
def test_the_number_of_folds_can_be_said(wanted: int) -> None:
    assert len(set(folds(named([1] * 20), wanted))) == wanted
