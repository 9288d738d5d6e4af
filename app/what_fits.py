"""The section of what fits in the deadline: steps, tokens, the longest answer; and what caps would have bought."""

from typing import Final

import altair as alt
import numpy as np
import streamlit as st

from hopbudget.app import look
from hopbudget.app.axis import TimeAxis
from hopbudget.app.data import Fits
from hopbudget.budgets import Allocation
from hopbudget.budgets.run_time.fits import Steps
from hopbudget.units import count, plural, seconds, share

_HEIGHT: Final = 150
_POINTS: Final = 200
_MOST_MODELS: Final = 2


def section(fits: Fits, plan: Allocation) -> None:
    """Draw the section."""
    st.subheader(f"What fits in {seconds(plan.deadline_s)}", anchor="fits")
    paces = sorted(fits.paces, key=lambda pace: -pace.n)[:_MOST_MODELS]
    columns = st.columns(2 + len(paces), border=True)
    p = plan.percentile / 100
    steps = fits.steps.left(0.0, p) if fits.steps is not None else None
    with columns[0]:
        st.metric("Steps (hops)", "-" if steps is None else count(steps))
        st.caption(f"over in time {plan.percentile:.10g}% of the time" if steps is not None else "too few trajectories")
    with columns[1]:
        st.metric("Longest final answer", "-" if fits.answer is None else plural(fits.answer.tokens, "token", "tokens"))
        if fits.answer is not None:
            st.caption(f"of {fits.answer.model}, when its call begins at {seconds(fits.answer.starts_s)}")
        else:
            st.caption("not known for this deadline")
    for column, pace in zip(columns[2:], paces, strict=True):
        left = pace.left(plan.deadline_s, p)
        with column:
            st.metric(f"Tokens of {pace.model}", "-" if left is None else count(left))
            st.caption("in one hop that has the whole deadline")
    if fits.steps is not None:
        st.altair_chart(
            _steps(fits.steps, p).properties(description="Steps that still fit, by the time that has gone by")
        )
        st.caption(
            f"How many further hops still fit: half of the time (dashed), {plan.percentile:.10g}% of the time (heavy)."
        )
    _caps(fits)


def _caps(fits: Fits) -> None:
    caps = [cap for cap in fits.caps if cap.cuts > 0]
    if not caps:
        return
    st.markdown("**What if answers were capped**")
    st.dataframe(
        [
            {
                "hop": cap.hop,
                "max_tokens": cap.tokens,
                "cut short": share(cap.cuts),
                "of answers": count(cap.n),
                "more in time": f"{100 * cap.in_time:+.1f} ± {100 * 1.96 * cap.error:.1f} points",
                "saved, on average": seconds(cap.saves_s),
            }
            for cap in caps
        ],
        hide_index=True,
    )
    st.caption(
        "Replayed on what was recorded, for caps that would have cut an answer; how good an answer is that was cut "
        "short, times do not tell."
    )


def _steps(steps: Steps, p: float) -> look.Drawn:
    at = np.linspace(0.0, steps.deadline_s, _POINTS)
    layers = []
    axis = TimeAxis(0.0, steps.deadline_s, False, "gone by")
    y = alt.Y("steps:Q", axis=alt.Axis(title=None, tickMinStep=1, tickCount=5))
    for level, width, dash in ((0.5, 1.5, [4, 3]), (p, 3.0, [1, 0])):
        values = [{"s": float(s), "steps": steps.left(float(s), level)} for s in at]
        tooltip = [
            alt.Tooltip("s:Q", title="seconds gone by", format=".3~r"),
            alt.Tooltip("steps:Q", title="still fit"),
        ]
        drawn = look.marks([value for value in values if value["steps"] is not None])
        layers.append(
            drawn.mark_line(color=look.UNSPLIT, strokeWidth=width, strokeDash=dash, interpolate="step-after").encode(
                x=axis.encode("s"), y=y, tooltip=tooltip
            )
        )
    return look.finish(*layers, rows_px=_HEIGHT, title=True)
