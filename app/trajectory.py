"""One trajectory: chosen from a list, drawn as a waterfall under the deadline's budgets, and why it took so long."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import streamlit as st

from hopbudget import budgets
from hopbudget.app import link
from hopbudget.app.because import name
from hopbudget.app.bridge import bridge
from hopbudget.app.data import (
    MOST_LISTED,
    Question,
    Scope,
    allocation,
    explained,
    learned,
    trace_url,
    trajectories,
    trajectory,
    usual_method,
)
from hopbudget.app.timeline import Timeline, longest, timeline
from hopbudget.app.waterfall import in_sight, waterfall
from hopbudget.budgets.blame.breaches import Breaches, Late
from hopbudget.errors import UserError
from hopbudget.render import counted
from hopbudget.render.base import id_digits
from hopbudget.render.causes import sentence, typical
from hopbudget.reports.explaining import Explained
from hopbudget.units import count, seconds

_LATE: Final = "breaches"
_SLOWEST: Final = "slowest"
_NEWEST: Final = "newest"
_MOST_LINES: Final = 40
_SCROLL_FROM: Final = 60
_LIST_PX: Final = 300

Row = Mapping[str, Any]


def section(scope: Scope, deadline_s: float | None, found: Breaches | None) -> None:
    """Draw the list and the chosen trajectory."""
    st.subheader("One by one", anchor="trajectory")
    trace = _pick(scope, found)
    if trace is None:
        st.info("There is no trajectory here.")
        return
    detail = trajectory(scope.source, trace)
    row = detail["trajectory"]
    plan = _plan(scope, deadline_s)
    why = explained(scope, row["trace_id"], row["duration_s"])
    _headline(row, deadline_s, why)
    drawn = timeline(row, detail["hops"], detail["works"], plan)
    _waterfall(drawn, plan)
    _facts(detail, trace)
    _why(why)


def _plan(scope: Scope, deadline_s: float | None) -> budgets.Allocation | None:
    """The deadline's budgets, as the page of budgets would give them."""
    if deadline_s is None:
        return None
    method, slots = link.kept(link.METHOD), link.kept(link.SLOTS)
    question = Question(
        deadline_s,
        90.0,
        "last",
        method if method in budgets.METHODS else usual_method(scope),
        slots if slots in budgets.SLOT_KINDS else "name",
    )
    try:
        return allocation(scope, question)
    except budgets.CannotAllocateError:
        return None


def _pick(scope: Scope, found: Breaches | None) -> str | None:
    orders = [*([_LATE] if found is not None and found.late else []), _SLOWEST, _NEWEST]
    link.settle(link.ORDER, orders, orders[0])
    order = st.segmented_control(
        "List", orders, key=link.ORDER, format_func=str.capitalize, required=True, label_visibility="collapsed"
    )
    if order == _LATE and found is not None:
        listed = _of_breaches(scope, found)
    else:
        listed = _of_rows(trajectories(scope, slowest=order == _SLOWEST), deadline=found)
    if not listed:
        return None
    first = next(iter(listed))
    asked = link.chosen(link.TRACE)
    chosen = _begins(asked, listed) if asked else first
    if chosen is None and asked:
        chosen = _elsewhere(scope, asked)
        if chosen is None:
            st.warning(f"The link names the trajectory `{asked}`, which this workload does not hold.")
            chosen = first
    return _table(listed, str(chosen))


def _table(listed: Mapping[str, Row], chosen: str) -> str:
    """The list as a table; a chosen row is the trajectory to show."""
    rows = list(listed)
    selected = rows.index(chosen) if chosen in listed else None
    picked = st.dataframe(
        [{key: value for key, value in row.items() if not key.startswith("_")} for row in listed.values()],
        hide_index=True,
        height=min(_LIST_PX, 36 * (len(rows) + 1)),
        on_select="rerun",
        selection_mode="single-row",
        key="listed",
        column_config={
            "took": st.column_config.ProgressColumn(
                "took", format="%.2f s", min_value=0.0, max_value=max(float(row["took"]) for row in listed.values())
            )
        },
    )
    now = picked["selection"]["rows"] if picked else []
    before = st.session_state.get("listed-rows")
    if now and (now, rows) != before:
        chosen = rows[now[0]]
    st.session_state["listed-rows"] = (now, rows)
    st.session_state[link.TRACE] = chosen
    told = f"row {selected + 1}" if selected is not None and chosen == rows[selected] else "chosen"
    more = "" if len(rows) < MOST_LISTED else f" The first {MOST_LISTED} are listed; a link can name any."
    st.caption(f"Select a row to see that trajectory. Shown: `{_short(chosen, listed)}` ({told}).{more}")
    return chosen


def _of_breaches(scope: Scope, found: Breaches) -> dict[str, dict[str, Any]]:
    t = learned(scope).profile.trajectories
    listed: dict[str, dict[str, Any]] = {}
    digits = id_digits([str(t.trace_id[late.row]) for late in found.trajectories[:MOST_LISTED]])
    for late in found.trajectories[:MOST_LISTED]:
        listed.setdefault(
            str(t.trace_id[late.row]),
            {
                "trajectory": str(t.trace_id[late.row])[:digits],
                "took": late.duration_s,
                "over the deadline": seconds(late.duration_s - found.deadline_s, signed=True),
                "over the typical": seconds(late.excess_s, signed=True),
                "largest part": _part(late),
                "outcome": str(t.outcome[late.row]).replace("_", " "),
            },
        )
    return listed


def _part(late: Late) -> str:
    where = f" in {late.name}" if late.name else ""
    return f"{name(late.kind)}{where} {seconds(late.seconds, signed=True)}"


def _of_rows(rows: list[dict[str, Any]], deadline: Breaches | None) -> dict[str, dict[str, Any]]:
    limit_s = deadline.deadline_s if deadline is not None else None
    digits = id_digits([row["trace_id"] for row in rows])
    return {
        _id(row, rows): {
            "trajectory": row["trace_id"][:digits],
            "took": row["duration_s"],
            **({"over the deadline": seconds(row["duration_s"] - limit_s, signed=True)} if limit_s is not None else {}),
            "hops": count(row["hop_count"]),
            "started (UTC)": f"{row['started_at']:%Y-%m-%d %H:%M:%S}",
            "outcome": str(row["outcome"]).replace("_", " "),
        }
        for row in rows
    }


def _elsewhere(scope: Scope, text: str) -> str | None:
    """The trajectory of a link that the list does not hold, if this workload holds it."""
    try:
        row = trajectory(scope.source, text)["trajectory"]
    except UserError:
        return None
    if row["workload"] != scope.workload:
        return None
    return text if row["root_span_id"].startswith(text.lower()) else str(row["trace_id"])


def _short(trace: str, listed: Iterable[str] = ()) -> str:
    """The beginning of an id that tells it from the listed ones."""
    return trace[: id_digits([trace, *listed])]


def _id(row: Row, rows: list[dict[str, Any]]) -> str:
    """The trace's id; the root span's where a trace holds several trajectories."""
    several = sum(other["trace_id"] == row["trace_id"] for other in rows) > 1
    return str(row["root_span_id"] if several else row["trace_id"])


def _begins(text: str, listed: Mapping[str, Row]) -> str | None:
    found = [trace for trace in listed if trace.startswith(text.lower())]
    return found[0] if len(found) == 1 else None


def _headline(row: Row, deadline_s: float | None, why: Explained | None) -> None:
    columns = st.columns(5, border=True)
    columns[0].metric("Took", seconds(row["duration_s"]))
    if deadline_s is not None:
        left_s = deadline_s - row["duration_s"]
        columns[1].metric("Late by" if left_s < 0 else "In time by", seconds(abs(left_s)))
    else:
        columns[1].metric("Outcome", str(row["outcome"]).replace("_", " ").capitalize())
    compared = why is not None and (why.parts or why.reference.trajectories > 1)
    columns[2].metric("Against a typical one", seconds(why.excess_s, signed=True) if why and compared else "-")
    columns[3].metric("Hops", count(row["hop_count"]))
    columns[4].metric("Work", seconds(row["work_s"]))


def _facts(detail: Mapping[str, Any], trace: str) -> None:
    """Where it can be found again, and its hops as a table."""
    row = detail["trajectory"]
    words = [
        f"`{row['trace_id']}`",
        f"{row['started_at']:%Y-%m-%d %H:%M:%S} UTC",
        str(row["outcome"]).replace("_", " "),
    ]
    if row["run"]:
        words.append(f"run {row['run']}")
    url = trace_url(row["trace_id"])
    if url is not None:
        words.append(f"[open in your tracing tool]({url})")
    words.append(f"`hopbudget explain {_short(trace)}`")
    st.caption(" · ".join(words))
    with st.expander("Its hops, in numbers"):
        st.dataframe(
            [
                {
                    "hop": f"{hop['hop']} #{hop['visit']}",
                    "model": hop["model"] or "-",
                    "starts after": seconds(hop["start_s"]),
                    "took": seconds(hop["duration_s"]),
                    "TTFT": seconds(hop["ttft_s"]),
                    "TPOT": counted.tpot(hop),
                    "prompt": "-" if hop["input_tokens"] is None else count(hop["input_tokens"]),
                    "tokens": counted.tokens(hop),
                    "attempts": "-" if hop["attempts"] is None else count(hop["attempts"]),
                    "left at its start": seconds(hop["remaining_s"]),
                    "outcome": str(hop["outcome"]).replace("_", " "),
                }
                for hop in detail["hops"]
            ],
            hide_index=True,
        )


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
    if not why.parts:
        compared = f" Compared with {why.reference.description}." if why.reference.trajectories > 1 else ""
        st.caption(f"No causes: {typical(why)}.{compared}")
        return
    way = "over" if why.excess_s >= 0 else "under"
    usual = seconds(why.reference.duration_s)
    st.subheader("Why", anchor="why")
    st.markdown(f"**{seconds(abs(why.excess_s))} {way} the typical {usual}**: {sentence(why.parts, why.excess_s)}.")
    st.altair_chart(bridge(why.parts).properties(description=sentence(why.parts, why.excess_s)))
    st.caption(f"Compared with {why.reference.description}.")
