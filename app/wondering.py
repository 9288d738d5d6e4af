"""The section of what-if: one thing made different in every recorded trajectory, and what that does to the deadline."""

from collections.abc import Sequence
from typing import Final

import streamlit as st

from hopbudget import budgets
from hopbudget.app import link
from hopbudget.app.data import Scope, places, what_if
from hopbudget.budgets import Allocation
from hopbudget.budgets.feasibility.whatif import Change, ChangeKind
from hopbudget.units import count, plural, seconds, share

PLACE: Final = "place"
CHANGE: Final = "change"
TO: Final = "to"
KEYS: Final = (PLACE, CHANGE, TO)
_NOTHING: Final = "(nothing)"
_TOKENS: Final = ("8", "16", "32", "64", "96", "128", "192", "256", "384", "512", "768", "1024", "2048")
_FACTORS: Final = ("0.1", "0.25", "0.5", "0.75", "0.9", "1.25", "1.5", "2", "3")
_KINDS: Final[dict[ChangeKind, str]] = {
    "scale": "takes so many times as long",
    "tokens": "writes at most so many tokens",
    "model": "is answered by another model",
    "drop": "is not there",
}


def section(scope: Scope, plan: Allocation) -> None:
    """Draw the section."""
    st.subheader("What if", anchor="what-if")
    here = places(scope)
    columns = st.columns(3)
    options = [_NOTHING, *here.hops, *here.works]
    link.settle(PLACE, options, _NOTHING)
    with columns[0]:
        place = str(st.selectbox("This hop or work", options, key=PLACE))
    kinds: list[ChangeKind] = [kind for kind in _KINDS if place in here.hops or kind in ("scale", "drop")]
    link.settle(CHANGE, kinds, "scale")
    with columns[1]:
        chosen = st.selectbox("differs so that it", kinds, key=CHANGE, format_func=lambda kind: _KINDS[kind])
    kind: ChangeKind = next(each for each in kinds if str(each) == str(chosen))
    with columns[2]:
        value = _value(kind, here.models)
    if place == _NOTHING:
        st.caption("Choose a hop or work to see what a change of it would do to the deadline.")
        return
    try:
        found = what_if(scope, Change(kind, place, value), plan.deadline_s, plan.percentile, plan.binds)
    except (budgets.CannotAllocateError, ValueError) as error:
        st.info(f"Nothing can be said: {error}.", icon=":material/help:")
        return
    figures = st.columns(4, border=True)
    figures[0].metric(f"Would meet {seconds(plan.deadline_s)}", share(found.after.share))
    figures[0].caption(f"95% {share(found.after.low)} to {share(found.after.high)}; now {share(found.before.share)}")
    figures[1].metric(f"Deadline that {plan.percentile:.10g}% would meet", seconds(found.min_after_s))
    figures[1].caption(
        f"95% {seconds(found.min_after_low_s, beside=found.min_after_s)} to "
        f"{seconds(found.min_after_high_s, beside=found.min_after_s)}; now {seconds(found.min_before_s)}"
    )
    figures[2].metric("Changed", count(found.changed))
    figures[2].caption(f"in {plural(found.trajectories, 'trajectory', 'trajectories')}")
    figures[3].markdown("**Assumed**")
    figures[3].caption(f"{found.assumption[:1].upper()}{found.assumption[1:]}.")


def _value(kind: ChangeKind, models: Sequence[str]) -> float | str | None:
    options = {"scale": _FACTORS, "tokens": _TOKENS, "model": tuple(models), "drop": ()}[kind]
    if not options:
        return None
    link.settle(TO, options, "0.5" if kind == "scale" else "128" if kind == "tokens" else options[0])
    chosen = str(st.selectbox("namely", options, key=TO))
    return chosen if kind == "model" else float(chosen)
