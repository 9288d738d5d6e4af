"""The section of objectives: what was promised, whether it holds, and what is left of the error budget."""

import math
from typing import Final

import streamlit as st

from hopbudget.app.calendar import attainment_by_day
from hopbudget.app.data import Scope, configuration, objectives
from hopbudget.errors import UserError
from hopbudget.objectives.checking import ObjectiveResult
from hopbudget.render import words

_IN_A_ROW: Final = 3
_BADGES: Final = {
    "met": ("green", ":material/check:"),
    "breach": ("red", ":material/close:"),
    "cant_say": ("gray", ":material/help:"),
}


def section(scope: Scope) -> None:
    """Draw the section; a hint where nothing was promised."""
    st.subheader("Objectives", anchor="objectives")
    try:
        config = configuration()
        results = objectives(scope) if config is not None else []
    except UserError as error:
        st.error(error.message, icon=":material/rule:")
        return
    if not results:
        said = f"`{config.path}` has none for this workload." if config is not None else "There is no `hopbudget.toml`."
        st.caption(
            f"{said} `hopbudget check --propose --out hopbudget.toml` writes one from what was observed; what it says "
            "is then shown here."
        )
        return
    for first in range(0, len(results), _IN_A_ROW):
        row = results[first : first + _IN_A_ROW]
        for column, result in zip(st.columns(_IN_A_ROW, border=True), row, strict=False):
            with column:
                _card(result)


def _card(result: ObjectiveResult) -> None:
    colour, icon = _BADGES[result.state]
    head = st.columns([3, 2], vertical_alignment="center")
    head[0].markdown(f"**{_first_large(words.title(result.objective))}**")
    head[1].badge(words.STATES[result.state].capitalize(), icon=icon, color=colour)  # type: ignore[arg-type]
    st.metric("Attained", words.value(result), label_visibility="collapsed")
    st.caption(words.account(result))
    left = result.budget_left
    if math.isfinite(left):
        st.progress(min(max(left, 0.0), 1.0), text=words.budget(result))
    if len(result.days) > 1:
        drawn = attainment_by_day(result.days, result.objective.target)
        st.altair_chart(drawn.properties(description=f"Attainment by day: {words.title(result.objective)}"))


def _first_large(text: str) -> str:
    return text[:1].upper() + text[1:]
