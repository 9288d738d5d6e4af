"""How good probabilities were that somebody said: Brier scores and calibration errors."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.profile import Bools, Floats

BINS: Final = 10


@dataclass(frozen=True, slots=True)
class Score:
    """Of later hop starts before the deadline, on clusters held out. NaN where there is none."""

    n: int
    base: float
    """Brier score of always saying the later base rate."""
    brier: float
    brier_hint: float
    """With hints that are off by `OFF`."""
    ece: float
    """Mean distance of what was said from what came of it, over ten bins."""
    ece_hint: float


NO_SCORE: Final = Score(0, math.nan, math.nan, math.nan, math.nan, math.nan)


def score(met: Bools, base: Floats, said: Floats, said_hint: Floats) -> Score:
    """Brier scores and calibration errors of these sayings."""
    if not len(met):
        return NO_SCORE
    return Score(
        n=len(met),
        base=_brier(base, met),
        brier=_brier(said, met),
        brier_hint=_brier(said_hint, met),
        ece=calibration_error(said, met),
        ece_hint=calibration_error(said_hint, met),
    )


def calibration_error(said: Floats, met: Bools) -> float:
    """sum over bins of P(bin) * |mean said - share met|, ten bins of equal width."""
    place = np.minimum((said * BINS).astype(np.int64), BINS - 1)
    gap = np.bincount(place, weights=said - met, minlength=BINS)
    return float(np.abs(gap).sum()) / len(met)


def _brier(said: Floats, met: Bools) -> float:
    return float(np.mean((said - met) ** 2))
