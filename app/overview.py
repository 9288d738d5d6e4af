"""Overview: objectives and what is left of their budgets, the trend, where the time goes, what the store holds."""

from datetime import datetime
from typing import Any, Final

import streamlit as st

from hopbudget.app import frame, link, look, objectives
from hopbudget.app.data import (
    Scope,
    choices,
    cost,
    costs_by,
    extent,
    groups,
    holdings,
    hop_spreads,
    report,
    trend,
    work_spreads,
)
from hopbudget.app.strips import strips
from hopbudget.app.trends import SPLIT, counts, lines, split
from hopbudget.budgets.attainment.spread import Spread
from hopbudget.budgets.numbers.quantiles import clopper_pearson
from hopbudget.render import counted
from hopbudget.render.costs import money
from hopbudget.render.report import side_by_side
from hopbudget.units import count, plural, seconds, share

_NONE: Final = "(none)"
_TREND: Final = {"p90_s": "Trajectory p90", "p50_s": "Trajectory p50", "ttft_p90_s": "TTFT p90"}


def page(scope: Scope) -> None:
    """Draw the page."""
    numbers = report(scope)
    st.caption(_holds(scope, numbers))
    _figures(numbers, cost(scope))
    objectives.section(scope)
    by = _trend(scope)
    if by is not None:
        _groups(scope, by)
    _split(numbers)
    _hops(scope, numbers)
    link.publish([link.BY, "metric"], always=[link.WORKLOAD, link.WHERE])


def _holds(scope: Scope, numbers: dict[str, Any]) -> str:
    words = [
        f"`{scope.source.path}`",
        plural(numbers["trajectories"], "trajectory", "trajectories"),
        plural(numbers["hops"], "hop", "hops"),
    ]
    ends = extent(scope)
    if ends is not None:
        words.append(_period(*ends))
    if numbers["incomplete"]:
        words.append(f"{count(numbers['incomplete'])} without a root")
    words.append(frame.lost(holdings(scope.source)))
    return " · ".join(words)


def _period(first: datetime, last: datetime) -> str:
    return f"{first:%Y-%m-%d %H:%M} to {last:{'%H:%M' if first.date() == last.date() else '%Y-%m-%d %H:%M'}} UTC"


def _figures(numbers: dict[str, Any], spent: dict[str, Any] | None) -> None:
    columns = st.columns(5 if spent is None else 6, border=True)
    times = numbers["trajectory_s"]
    outcomes: dict[str, int] = numbers["trajectory_outcomes"]
    n = sum(outcomes.values())
    failed = outcomes.get("failed", 0) + outcomes.get("refused", 0)
    with columns[0]:
        st.metric("Trajectory p50", seconds(times["p50"]))
        st.caption(f"of {count(times['n'])} that came out well")
    with columns[1]:
        st.metric("Trajectory p90", seconds(times["p90"]))
        st.caption(f"p99 {seconds(times['p99'])}; of the same, interpolated")
    with columns[2]:
        st.metric("Failed", share(failed / n) if n else "-")
        low, high = clopper_pearson(failed, n)
        st.caption(f"{count(failed)} of {count(n)}; 95% interval {share(low)} to {share(high)}")
    for column, name, key in ((columns[3], "TTFT p90", "ttft_s"), (columns[4], "TPOT p90", "tpot_s")):
        with column:
            st.metric(name, seconds(numbers[key]["p90"]))
            some = numbers[key]["n"]
            said = f"p50 {seconds(numbers[key]['p50'])}; of {count(some)} that came out well"
            if key == "tpot_s" and numbers["tpot_by_chunks"]:
                said += f", {count(numbers['tpot_by_chunks'])} of them by chunk, not by token"
            st.caption(said if some else "not recorded")
    if spent is not None:
        each = spent["trajectory"]
        with columns[5]:
            st.metric("Cost p50", money(each["p50"]))
            known = f"known of {count(each['n'])} of {count(spent['came_well'])} that came out well"
            known += f", a part of {count(spent['part_of'])}" if spent["part_of"] else ""
            st.caption(f"p90 {money(each['p90'])}; {known}" if each["n"] else known)


def _trend(scope: Scope) -> str | None:
    head = st.columns([4, 3, 2], vertical_alignment="bottom")
    head[0].subheader("Trend", anchor="trend")
    link.settle("metric", list(_TREND), "p90_s")
    with head[1]:
        metric = st.segmented_control(
            "What", list(_TREND), key="metric", format_func=lambda key: _TREND[key], label_visibility="collapsed"
        )
    options = [_NONE, *choices(scope.source, scope.workload)]
    link.settle(link.BY, options, _NONE)
    with head[2]:
        chosen = str(st.selectbox("Group by", options, key=link.BY))
    by = None if chosen == _NONE else chosen
    size_s, points = trend(scope, by)
    metric = str(metric or "p90_s")
    told = f"{_TREND[metric]} by {seconds(size_s)}" + (f" and {by}" if by else "")
    if not points:
        st.caption("Nothing with a root came yet, so there is no trend.")
        return by
    st.altair_chart(lines(points, metric, size_s, by).properties(description=f"Trend: {told}"))
    st.altair_chart(counts(points, size_s).properties(description="Trajectories and failures over time"))
    st.caption(
        f"One point for each {seconds(size_s)} (UTC), over what came out well. Bars: how many ran, failures in red."
    )
    return by


def _groups(scope: Scope, by: str) -> None:
    found, spent = groups(scope, by), costs_by(scope, by)
    rows = [
        {
            by: group.name,
            "n": group.n,
            "p50": seconds(group.p50_s),
            "p90": seconds(group.p90_s),
            "p99": seconds(group.p99_s),
            "p90 (s)": group.p90_s,
            "hops": f"{group.hops:.1f}",
            "failed": share(group.failed / group.n),
            **({"cost p50": _cost_p50(spent.get(group.name))} if spent else {}),
        }
        for group in found
    ]
    largest = max((group.p90_s or 0.0 for group in found), default=0.0) or 1.0
    st.dataframe(
        rows,
        hide_index=True,
        column_config={
            "p90 (s)": st.column_config.ProgressColumn("p90, drawn", format=" ", min_value=0, max_value=largest)
        },
    )


def _cost_p50(found: dict[str, Any] | None) -> str:
    return money(None if found is None else found["trajectory"]["p50"])


def _split(numbers: dict[str, Any]) -> None:
    parts = split(numbers["time_split"])
    if not parts:
        return
    st.subheader("Where the time goes", anchor="split")
    told = ", ".join(f"{part.name} {share(part.share)}" for part in parts)
    st.altair_chart(look.stacked(parts).properties(description=f"Where the time goes: {told}"))
    times = numbers["time_split"]
    beside = side_by_side(sum(times[key] for key, _, _ in SPLIT), times["trajectories_s"])
    if beside:
        st.caption(f"{beside[:1].upper()}{beside[1:]}.")


def _hops(scope: Scope, numbers: dict[str, Any]) -> None:
    st.subheader("Hops and work", anchor="hops")
    st.caption("Each dot stands for a fiftieth of what came out well. Heavy tick: p50. Light tick: p90.")
    hops, works = hop_spreads(scope, "duration_s"), work_spreads(scope)
    columns = st.columns(2 if works else 1, gap="large")
    with columns[0]:
        _panel("Duration", "request to last token", look.UNSPLIT, hops)
    if works:
        with columns[1]:
            _panel("Work", "tools and what else has a span", look.WORK, works)
    with st.expander("The numbers"):
        st.dataframe(_numbers(numbers), hide_index=True)
        if numbers["tpot_by_chunks"]:
            st.caption(counted.by_chunks(numbers["by_hop"]))


def _panel(title: str, hint: str, colour: str, spreads: list[Spread]) -> None:
    st.markdown(f"**{title}** :gray[· {hint}]")
    if not spreads:
        st.caption("Nothing came out well.")
        return
    told = "; ".join(f"{s.name} p50 {seconds(s.p50)}, p90 {seconds(s.p90)}, n {s.n}" for s in spreads)
    st.altair_chart(strips(spreads, title, colour).properties(description=f"{title}: {told}"))


def _numbers(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for row in numbers["by_hop"]:
        outcomes = {name: n for name, n in row["outcomes"].items() if name != "ok"}
        rows.append(
            {
                "hop": row["hop"],
                "came out well": count(row["duration_s"]["n"]),
                **{f"duration {q}": seconds(row["duration_s"][q]) for q in ("p50", "p95", "p99")},
                **{f"TTFT {q}": seconds(row["ttft_s"][q]) for q in ("p50", "p95", "p99") if row["ttft_s"]["n"]},
                **{f"TPOT {q}": seconds(row["tpot_s"][q]) for q in ("p50", "p95", "p99") if row["tpot_s"]["n"]},
                "not ok": ", ".join(f"{count(n)} {name.replace('_', ' ')}" for name, n in outcomes.items()) or "none",
            }
        )
    return rows
