"""Budgets: a deadline and a percentile set with sliders, what can be met, and what each part may take."""

import math
from collections.abc import Mapping
from typing import Final, cast

import streamlit as st

from hopbudget import budgets
from hopbudget.app import allotted, deadline, link, what_fits, wondering
from hopbudget.app.data import Question, Scope, allocation, curve, fitting, learned, plan_file
from hopbudget.app.feasibility import feasibility_curve
from hopbudget.units import count, plural, seconds, share

_PERCENTILES: Final = ("50", "75", "90", "95", "99")
_METHODS: Final[Mapping[str, str]] = {
    "independent": "independent: likeliest that all are kept",
    "auto": "auto: the best on runs it has not seen (takes seconds)",
    "equal_risk": "equal risk: least expected overrun",
    "quantile": "quantile: in proportion to a quantile",
    "mean": "mean: in proportion to the mean",
    "equal_tuned": "equal, after a tuned reserve",
    "equal": "equal",
}
_SLOTS: Final[Mapping[str, str]] = {
    "name": "the hop's name",
    "before": "name and what came before",
    "visit": "name and visit",
}
_BINDS: Final[Mapping[str, str]] = {"last": "the last token", "answer": "the first answer token"}
_VERDICTS: Final[Mapping[str, tuple[str, str]]] = {
    "feasible": ("green", ":material/check_circle:"),
    "infeasible": ("red", ":material/cancel:"),
    "undecided": ("orange", ":material/help:"),
}


def page(scope: Scope) -> None:
    """Draw the page."""
    top = st.columns([5, 3], gap="large")
    how = st.columns(3)
    with how[0]:
        slots = _choice(link.SLOTS, "A slot is", _SLOTS)
    with how[1]:
        method = _choice(link.METHOD, "Method", _METHODS)
    with how[2]:
        binds = cast(budgets.Binds, _choice(link.BINDS, "In time means", _BINDS))
    with top[1]:
        percentile = _percentile()
    try:
        with top[0]:
            deadline_s = deadline.slider(scope, binds)
        question = Question(deadline_s, percentile, binds, cast(budgets.Method, method), cast(budgets.SlotKind, slots))
        _show(scope, allocation(scope, question), question)
    except budgets.CannotAllocateError as error:
        st.info(f"No plan yet: {error}.", icon=":material/help:")
    link.publish(
        [link.PERCENTILE, link.METHOD, link.SLOTS, link.BINDS, *wondering.KEYS],
        always=[link.WORKLOAD, link.WHERE, link.DEADLINE],
    )


def _choice(key: str, label: str, options: Mapping[str, str]) -> str:
    link.settle(key, list(options), next(iter(options)))
    return str(st.selectbox(label, list(options), key=key, format_func=lambda option: options[option]))


def _percentile() -> float:
    link.settle(link.PERCENTILE, _PERCENTILES, "90")
    chosen = st.segmented_control(
        "Share of trajectories that shall be in time", _PERCENTILES, key=link.PERCENTILE, format_func=lambda p: f"{p}%"
    )
    return float(chosen or 90)


def _show(scope: Scope, plan: budgets.Allocation, question: Question) -> None:
    _feasibility(plan)
    drawn = feasibility_curve(curve(scope, plan.binds), plan)
    st.altair_chart(drawn.properties(description=f"Feasibility: share in time by deadline, {seconds(plan.deadline_s)}"))
    st.caption("The share of trajectories that meet each deadline, with its 95% interval. Vertical: this deadline.")
    st.subheader(f"{seconds(plan.deadline_s)}, allotted", anchor="allotted")
    told = ", ".join(f"{part.name} {seconds(part.size_s)}" for part in allotted.segments(plan))
    st.altair_chart(allotted.bar(plan).properties(description=f"Budgets: {told}"))
    st.caption("Bars: the budget. Ticks: attained there, p50 heavy, p90 light; what failed there never ended.")
    st.altair_chart(allotted.beside_observed(plan).properties(description="Budgets beside what was observed"))
    if plan.stream is not None:
        _stream(plan.stream)
    what_fits.section(fitting(scope, plan.deadline_s, plan.percentile, plan.binds), plan)
    wondering.section(scope, plan)
    for note in plan.notes:
        st.caption(f"Note: {note[:1].upper()}{note[1:]}.")
    _foot(scope, plan, question)


def _feasibility(plan: budgets.Allocation) -> None:
    f = plan.feasibility
    columns = st.columns(4, border=True)
    colour, icon = _VERDICTS[f.verdict]
    with columns[0]:
        st.metric(f"Meet {seconds(plan.deadline_s)}", share(f.p_deadline))
        st.caption(f"95% interval {share(f.p_low)} to {share(f.p_high)}")
    with columns[1]:
        st.metric(f"Deadline that {plan.percentile:g}% meet", seconds(f.min_deadline_s))
        st.caption(_interval(f))
    with columns[2]:
        st.metric("Keep all budgets too", share(plan.kept.share))
        of = f"of the {count(plan.kept.n)} they were learned from"
        st.caption(f"95% interval {share(plan.kept.low)} to {share(plan.kept.high)}, {of}")
    with columns[3]:
        st.metric(f"Verdict for {plan.percentile:g}%", f.verdict.capitalize())
        st.caption(f":{colour}[{icon}] " + (f"To decide: {f.needs}." if f.needs else _because(plan)))


def _interval(f: budgets.Feasibility) -> str:
    if not math.isfinite(f.min_deadline_low_s):
        return "so many failed that no deadline would do"
    high, beside = f.min_deadline_high_s, f.min_deadline_s
    upper = seconds(high, beside=beside) if math.isfinite(high) else "beyond what was seen"
    return f"95% interval {seconds(f.min_deadline_low_s, beside=beside)} to {upper}"


def _because(plan: budgets.Allocation) -> str:
    f = plan.feasibility
    if f.verdict == "feasible":
        return f"{share(f.p_deadline)} is at least the {plan.percentile:g}% asked for."
    return f"Even the interval's upper end, {share(f.p_high)}, is below {plan.percentile:g}%."


def _stream(stream: budgets.StreamBudget) -> None:
    st.markdown("**The final stream's own objectives**")
    columns = st.columns(4, border=True)
    columns[0].metric("First token within (TTFT)", seconds(stream.ttft_s))
    columns[1].metric("Then a token every (TPOT)", seconds(stream.tpot_s))
    columns[2].metric("Up to (N)", "-" if stream.tokens is None else plural(stream.tokens, "token", "tokens"))
    columns[3].metric("Kept together by", share(stream.joint))
    if stream.tokens is not None and stream.tokens_percentile:
        st.caption(
            f"{plural(stream.tokens, 'token', 'tokens')} is p{stream.tokens_percentile:.3g} of N. "
            f"TTFT and TPOT both stand at their p{100 * stream.level:.3g}, so that they hold together."
        )


def _foot(scope: Scope, plan: budgets.Allocation, question: Question) -> None:
    source = plan.learned_from
    runs = f" in {plural(source.runs, 'run', 'runs')}" if source.runs else ""
    left_out = ", ".join(f"{count(n)} {reason.replace('_', ' ')}" for reason, n in source.left_out.items() if n)
    part = f", a part of {count(learned(scope).of)}" if learned(scope).sampled else ""
    columns = st.columns([4, 1], vertical_alignment="center")
    columns[0].caption(
        f"Learned from {plural(source.trajectories, 'trajectory', 'trajectories')}{part}{runs}"
        + (f" of {', '.join(source.models)}" if source.models else "")
        + (f"; left out: {left_out}" if left_out else "")
        + ". Budgets are for blame and design, no hard stops: time left over is the next one's."
    )
    columns[1].download_button(
        "Download plan.toml",
        data=lambda: plan_file(scope, question),
        file_name="plan.toml",
        mime="application/toml",
        on_click="ignore",
        icon=":material/download:",
        key="download-plan",
    )
