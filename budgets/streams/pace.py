"""At which pace would somebody who reads (or speaks) along have had to wait for these streams?

They begin with the first token and take `pace` tokens a second. A chunk holds N over its stream's chunks tokens. After
j chunks they are done at j * chunk / pace, and the next chunk came after the sum of the first j gaps: the wait is by
how much the worst of these sums is later.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hopbudget.budgets.profile import Floats, Ints


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams that came to their end: their gaps one after another, and of each how many, and its tokens (N)."""

    gaps_s: Floats
    gaps: Ints
    """Of each stream, at least 1."""
    tokens: Floats

    def __len__(self) -> int:
        return len(self.gaps)


def waited_s(streams: Streams, pace: float) -> Floats:
    """By stream, the longest that a reader at `pace` tokens a second would have waited in all; 0 for none."""
    if not len(streams):
        return np.zeros(0)
    first = np.concatenate(([0], np.cumsum(streams.gaps)[:-1]))
    ahead_s = np.repeat(streams.tokens / (streams.gaps + 1) / pace, streams.gaps)
    late = np.cumsum(streams.gaps_s - ahead_s)
    before = np.where(first > 0, late[first - 1], 0.0)
    waited: Floats = np.maximum(np.maximum.reduceat(late, first) - before, 0.0)
    return waited


def shares_waiting(streams: Streams, paces: Sequence[float], over_s: Sequence[float]) -> list[list[float]]:
    """For each wait in seconds (a row) and pace, the share of streams whose reader would have waited longer.

    NaN where there is no stream.
    """
    if not len(streams):
        return [[math.nan] * len(paces) for _ in over_s]
    waited = [waited_s(streams, pace) for pace in paces]
    return [[float(np.mean(each > limit)) for each in waited] for limit in over_s]
