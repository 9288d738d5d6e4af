"""The section of one trajectory: chosen from a list, drawn as a waterfall under the plan, and why it took so long."""

from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from hopbudget import budgets
from hopbudget.app import link
from hopbudget.app.bridge import bridge
from hopbudget.app.data import MOST_LISTED, Source, explained, report, trajectories, trajectory
from hopbudget.app.timeline import Timeline, longest, timeline
from hopbudget.app.waterfall import in_sight, waterfall
from hopbudget.errors import UserError
from hopbudget.explaining import Explained
from hopbudget.render.causes import sentence
from hopbudget.units import count, seconds

_ANY: Final = "any"
_SLOWEST: Final = "slowest"
_MOST_LINES: Final = 40
_SCROLL_FROM: Final = 60

Row = Mapping[str, Any]


def section(source: Source, workload: str, plan: budgets.Allocation | None) -> None:
    """Draw the section."""
    st.header("One trajectory", anchor="trajectory")
    causes = _causes(source, workload)
    trace = _pick(source, workload, causes)
    if trace is None:
        st.info("No trajectory of this outcome.")
        return
    found = trajectory(source, trace)
    row = found["trajectory"]
    why = causes.get((row["trace_id"], row["duration_s"]))
    _headline(row, plan, why)
    drawn = timeline(row, found["hops"], found["works"], plan)
    _waterfall(drawn, plan)
    _why(why)


def _causes(source: Source, workload: str) -> dict[tuple[str, float], Explained]:
    try:
        return explained(source, workload)
    except UserError:
        return {}  # nothing came well, so nothing can be compared; the waterfall stands without causes


def _pick(source: Source, workload: str, causes: Mapping[tuple[str, float], Explained]) -> str | None:
    columns = st.columns([1, 1, 4])
    outcomes = [_ANY, *report(source, workload)["trajectory_outcomes"]]
    link.settle(link.ORDER, (_SLOWEST, "newest"), _SLOWEST)
    link.settle(link.OUTCOME, outcomes, _ANY)
    with columns[0]:
        order = st.selectbox("First", (_SLOWEST, "newest"), key=link.ORDER, format_func=str.capitalize)
    with columns[1]:
        outcome = st.selectbox(
            "Outcome", outcomes, key=link.OUTCOME, format_func=lambda name: str(name).replace("_", " ")
        )
    rows = trajectories(source, workload, None if outcome == _ANY else outcome, slowest=order == _SLOWEST)
    listed = {_id(row, rows): row for row in rows}
    asked = _asked(source, workload, listed)
    if asked is not None:
        listed = {**asked, **listed}
    if not listed:
        return None
    unknown = link.settle(link.TRACE, list(listed), next(iter(listed)), lambda text: _begins(text, listed))
    with columns[2]:
        chosen = st.selectbox(
            f"Trajectory ({count(len(listed))} listed)"
            if len(listed) < MOST_LISTED
            else f"Trajectory (first {MOST_LISTED})",
            list(listed),
            key=link.TRACE,
            format_func=lambda trace: _words(trace, listed[trace], causes),
        )
    if unknown is not None:
        st.warning(f"The link names the trajectory `{unknown}`, which this workload does not hold.")
    return str(chosen)


def _id(row: Row, rows: list[dict[str, Any]]) -> str:
    """The trace's id; the root span's where a trace holds several trajectories."""
    several = sum(other["trace_id"] == row["trace_id"] for other in rows) > 1
    return str(row["root_span_id"] if several else row["trace_id"])


def _asked(source: Source, workload: str, listed: Mapping[str, Row]) -> dict[str, dict[str, Any]] | None:
    """The trajectory of a link (or the one chosen before) that the list does not hold, if this workload holds it."""
    text = st.session_state.get(link.TRACE) or st.query_params.get(link.TRACE)
    if not text or _begins(text, listed):
        return None
    try:
        row = trajectory(source, text)["trajectory"]
    except UserError:
        return None
    outcome = st.session_state.get(link.OUTCOME)
    if row["workload"] != workload or outcome not in (_ANY, row["outcome"]):
        return None
    return {str(text) if text == row["root_span_id"] else str(row["trace_id"]): row}


def _begins(text: str, listed: Mapping[str, Row]) -> str | None:
    found = [trace for trace in listed if trace.startswith(text.lower())]
    return found[0] if len(found) == 1 else None


def _words(trace: str, row: Row, causes: Mapping[tuple[str, float], Explained]) -> str:
    words = [seconds(row["duration_s"]), f"{count(row['hop_count'])} hops"]
    if row["outcome"] != "ok":
        words.append(str(row["outcome"]).replace("_", " "))
    why = causes.get((row["trace_id"], row["duration_s"]))
    if why is not None and why.parts and why.excess_s > 0:
        words.append(f"{seconds(why.excess_s, signed=True)}: {why.parts[0].detail.replace('`', '')}")
    return " · ".join([*words, f"{row['started_at']:%Y-%m-%d %H:%M}", trace[:12]])


def _headline(row: Row, plan: budgets.Allocation | None, why: Explained | None) -> None:
    columns = st.columns(5, border=True)
    columns[0].metric("Took", seconds(row["duration_s"]))
    if plan is not None:
        finish_s = row["duration_s"] if plan.binds == "last" else row["answer_start_s"]
        if finish_s is not None:
            left_s = plan.deadline_s - finish_s
            columns[1].metric("Late by" if left_s < 0 else "In time by", seconds(abs(left_s)))
        else:
            columns[1].metric("Answer started", "-")
    columns[2].metric("Against a typical one", seconds(why.excess_s, signed=True) if why is not None else "-")
    columns[3].metric("Hops", count(row["hop_count"]))
    columns[4].metric("Work", seconds(row["work_s"]))


def _waterfall(drawn: Timeline, plan: budgets.Allocation | None) -> None:
    lines = list(drawn.lines)
    if len(lines) > _MOST_LINES:
        whole = st.toggle(f"Show all {count(len(lines))} steps", key="all-steps")
        lines = lines if whole else longest(lines, _MOST_LINES)
    if len(lines) < len(drawn.lines):
        st.caption(f"The {len(lines)} longest of {count(len(drawn.lines))} steps; the first lane holds all of them.")
    chart = waterfall(drawn, lines, plan.deadline_s if plan else None).properties(
        description="; ".join(f"{line.label} {seconds(line.duration_s)}" for line in lines[:_MOST_LINES])
    )
    if len(lines) > _SCROLL_FROM:
        with st.container(height=900, border=False):
            st.altair_chart(chart)
    else:
        st.altair_chart(chart)
    if plan is not None:
        _spent(drawn, plan.deadline_s)


def _spent(drawn: Timeline, deadline_s: float) -> None:
    over = [spent for spent in drawn.spent if spent.out_at_s is not None]
    words = "Underlined: past its slot's budget. Grey tick: where the slot's budget would have ended. "
    if not in_sight(drawn, deadline_s):
        words += f"The deadline, {seconds(deadline_s)}, is far off to the right. "
    if over:
        told = ", ".join(f"{s.slot} by {seconds(s.spent_s - s.budget_s)} (budget {seconds(s.budget_s)})" for s in over)
        st.caption(f"{words}Over: {told}.")
    else:
        st.caption(f"{words}Every slot kept its budget.")


def _why(why: Explained | None) -> None:
    if why is None:
        st.caption("Its duration is not known or nothing came out well, so there is nothing to compare it with.")
        return
    way = "over" if why.excess_s >= 0 else "under"
    typical = seconds(why.reference.duration_s)
    st.subheader("Why", anchor="why")
    st.markdown(f"**{seconds(abs(why.excess_s))} {way} the typical {typical}**: {sentence(why.parts, why.excess_s)}.")
    st.altair_chart(bridge(why.parts).properties(description=sentence(why.parts, why.excess_s)))
    st.caption(f"Compared with {why.reference.description}.")
