"""What of the store's columns a profile holds."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Profile
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.store.queries import Where
from hopbudget.tracing.gaps import GapRecorder


def gaps(*us: int) -> str:
    recorder = GapRecorder()
    for each in us:
        recorder.add(each)
    return recorder.encode()


def profile_of(make: Any, store: Store, tmp_path: Path, **attributes: Any) -> Profile:
    """Of one trajectory with one streamed hop that our capture measured."""
    ours = {"hopbudget.ttft": 0.5, "hopbudget.outcome": "ok", "gen_ai.request.stream": True}
    spans = [
        make.agent("bot", 0, 10, attributes={"hopbudget.deadline": 12.0}),
        make.chat("h", 1, 9, parent="bot", attributes={**ours, **attributes}),
    ]
    make.file(tmp_path / "one.jsonl", spans)
    store.import_paths([str(tmp_path / "one.jsonl")])
    with store.reading() as con:
        return queries.profile(con, Where())


def test_measurements_of_our_own_capture_are_there(make: Any, store: Store, tmp_path: Path) -> None:
    found = profile_of(
        make,
        store,
        tmp_path,
        **{
            "hopbudget.attempt_ttft": 0.25,
            "hopbudget.client_lag": 0.125,
            "hopbudget.consumer": 0.5,
            "hopbudget.limit_hit": "stall",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.cache_read.input_tokens": 60,
        },
    )
    hops = found.hops
    assert found.trajectories.deadline_s.tolist() == [12.0]
    measured = (hops.attempt_ttft_s, hops.client_lag_s, hops.consumer_s, hops.input_tokens, hops.cached_tokens)
    assert [column.tolist() for column in measured] == [[0.25], [0.125], [0.5], [100.0], [60.0]]
    assert hops.limit_hit.tolist() == ["stall"]


def test_what_was_not_observed_is_nan(make: Any, store: Store, tmp_path: Path) -> None:
    hops = profile_of(make, store, tmp_path).hops
    for column in (hops.attempt_ttft_s, hops.client_lag_s, hops.consumer_s, hops.cached_tokens, hops.stalled_s):
        assert column.dtype == np.float64
        assert math.isnan(column[0])
    assert hops.limit_hit.tolist() == [""]


@pytest.mark.parametrize(
    ("us", "stalled_s"),
    [
        ([20_000] * 50, 0.0),
        ([20_000] * 50 + [4_000_000], 3.0),
        ([500_000] * 50 + [4_000_000], 0.0),
        ([500_000] * 50 + [6_000_000, 7_000_000], 3.0),
        ([], 0.0),
    ],
)
def test_a_stall_is_what_a_gap_has_over_a_second_and_over_ten_of_the_streams_usual_gaps(
    make: Any, store: Store, tmp_path: Path, us: list[int], stalled_s: float
) -> None:
    found = profile_of(make, store, tmp_path, **{"hopbudget.itl": gaps(*us)})
    assert found.hops.stalled_s.tolist() == [pytest.approx(stalled_s)]
