"""The deadline's slider, shared by the pages: observed percentiles among round durations."""

import math
from typing import Final

import streamlit as st

from hopbudget import budgets
from hopbudget.app import link
from hopbudget.app.axis import deadlines
from hopbudget.app.data import Scope, attained, configured_deadline_s, trajectory_spread
from hopbudget.errors import UserError
from hopbudget.units import parse_duration, parse_percentile, seconds

_NAMED: Final = (50.0, 75.0, 90.0, 95.0, 99.0)
_DEFAULT: Final = "p90"
_ATTAINED: Final = "Percentiles here are attained: of all that ran, what failed never came in time."
"""What the slider's percentiles are, for a person who asks."""
_TOO_NEAR: Final = 0.012


def slider(scope: Scope, binds: budgets.Binds = "last") -> float:
    """Draw the slider; returns seconds. Raises CannotAllocateError where nothing says how long it takes."""
    wanted = configured_deadline_s(scope)
    choices = _choices(scope, binds, wanted)
    default = _DEFAULT if _DEFAULT in choices else next(reversed(choices))
    if wanted is not None:
        default = _words(wanted)
    unknown = link.settle(link.DEADLINE, list(choices), default)

    def words(choice: str) -> str:
        named = f" ({choice})" if choice.startswith("p") else ""
        return seconds(choices[choice]) + named

    chosen = st.select_slider("Deadline", list(choices), key=link.DEADLINE, format_func=words, help=_ATTAINED)
    if unknown is not None:
        st.caption(f"The link's deadline {unknown!r} can't be read; write it like `12s` or `p90`.")
    if binds == "last" and str(chosen).startswith("p"):
        _beside_overview(scope, str(chosen), choices[str(chosen)])
    return choices[str(chosen)]


def _beside_overview(scope: Scope, percentile: str, attained_s: float) -> None:
    """Why this is not the number that Overview shows, where it is not."""
    spread = trajectory_spread(scope)
    shown_s = {"p50": spread.p50, "p90": spread.p90, "p99": spread.p99}.get(percentile) if spread else None
    if shown_s is None or seconds(shown_s) == seconds(attained_s):
        return
    st.caption(
        f"{seconds(attained_s)} is attained: the first observed time by which {percentile[1:]}% of all that ran had "
        "finished; what failed never has. "
        f"Overview's {percentile}, {seconds(shown_s)}, is interpolated, of those that came out well."
    )


def _words(value_s: float) -> str:
    return f"{value_s:g}s"


def _choices(scope: Scope, binds: budgets.Binds, wanted: float | None) -> dict[str, float]:
    named = {f"p{p:g}": attained(scope, binds, p) for p in _NAMED}
    named = {name: value for name, value in named.items() if math.isfinite(value) and value > 0}
    asked = link.chosen(link.DEADLINE) or ""
    extra = _asked(scope, binds, asked)
    spread = trajectory_spread(scope)
    seen = [*named.values(), *(spread.dots if spread else ())] or [1.0]
    low, high = attained(scope, binds, 10), max(seen)
    low = low if math.isfinite(low) and low > 0 else min(seen)
    found = dict(named)
    for value in deadlines(0.6 * low, 1.3 * high):
        if all(abs(value - other) > _TOO_NEAR * value for other in named.values()):
            found[_words(value)] = value
    if wanted is not None:
        found[_words(wanted)] = wanted
    if extra is not None:
        found.setdefault(asked, extra)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _asked(scope: Scope, binds: budgets.Binds, text: str) -> float | None:
    """Seconds of a deadline that a link asks for, None where it is none."""
    try:
        percentile = parse_percentile(text)
        value = parse_duration(text, "deadline") if percentile is None else attained(scope, binds, percentile)
    except UserError:
        return None
    return value if math.isfinite(value) and value > 0 else None
