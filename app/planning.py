"""Budgets: a deadline and a percentile set with sliders, what can be met, and what each part may take."""

import math
import shlex
from collections.abc import Mapping
from typing import Final, cast

import streamlit as st

from hopbudget import budgets
from hopbudget.app import allotted, deadline, link, what_fits, wondering
from hopbudget.app.data import (
    AUTO_UP_TO,
    Question,
    Scope,
    allocation,
    curve,
    fitting,
    learned,
    plan_file,
    size,
    usual_method,
)
from hopbudget.app.feasibility import feasibility_curve
from hopbudget.units import count, plural, seconds, share

_PERCENTILES: Final = ("50", "75", "90", "95", "99")
_METHODS: Final[Mapping[str, str]] = {
    "auto": "auto: the best on those held out",
    "independent": "independent: likeliest that all are kept",
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
        method = _method(scope)
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


def _method(scope: Scope) -> str:
    usual = usual_method(scope)
    link.follow(link.METHOD, usual)
    method = _choice(link.METHOD, "Method", _METHODS, usual)
    if usual != "auto" and method == usual:
        st.caption(
            f"`hopbudget allocate` takes `auto`, which is slower to draw: here only up to {count(AUTO_UP_TO)} "
            f"trajectories, unless chosen. These are {count(size(scope))}."
        )
    return method


def _choice(key: str, label: str, options: Mapping[str, str], usual: str | None = None) -> str:
    link.settle(key, list(options), usual or next(iter(options)))
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
    st.caption(
        _split(plan) + "Bars: the budget. Ticks: attained there, p50 heavy, p90 light; what failed there never ended."
    )
    st.altair_chart(allotted.beside_observed(plan).properties(description="Budgets beside what was observed"))
    if plan.stream is not None:
        _stream(plan.stream)
    what_fits.section(fitting(scope, plan.deadline_s, plan.percentile, plan.binds), plan)
    wondering.section(scope, plan)
    for note in plan.notes:
        st.caption(f"Note: {note[:1].upper()}{note[1:]}.")
    _foot(scope, plan, question)


def _split(plan: budgets.Allocation) -> str:
    """What `auto` took."""
    if plan.auto is None:
        return ""
    reserve = f", work and stream set aside at p{100 * plan.auto.reserve:g}" if plan.auto.reserve is not None else ""
    return f"`auto` took `{plan.auto.method}`{reserve}. "


def _feasibility(plan: budgets.Allocation) -> None:
    f = plan.feasibility
    columns = st.columns(4, border=True)
    colour, icon = _VERDICTS[f.verdict]
    with columns[0]:
        st.metric(f"Meet {seconds(plan.deadline_s)}", share(f.p_deadline))
        st.caption(f"95% interval {share(f.p_low)} to {share(f.p_high)}")
    with columns[1]:
        st.metric(f"Deadline that {plan.percentile:.10g}% meet", seconds(f.min_deadline_s))
        st.caption(_interval(f))
    with columns[2]:
        kept, of = _kept(plan)
        st.metric("Keep all budgets too", share(kept.share))
        st.caption(f"95% interval {share(kept.low)} to {share(kept.high)}, of {of}")
    with columns[3]:
        st.metric(f"Verdict for {plan.percentile:.10g}%", f.verdict.capitalize())
        st.caption(f":{colour}[{icon}] " + (f"To decide: {f.needs}." if f.needs else _because(plan)))


def _kept(plan: budgets.Allocation) -> tuple[budgets.Share, str]:
    """How many keep every budget and the deadline, and of which: those held out, where any were."""
    auto = plan.auto
    if auto is None or len(auto.candidates) < 2:
        return plan.kept, f"the {count(plan.kept.n)} they were learned from"
    return auto.success, f"{count(auto.success.n)} that they were not learned from, held out in {auto.folds} folds"


def _interval(f: budgets.Feasibility) -> str:
    if math.isinf(f.min_deadline_s):
        return "so many failed that no deadline would do"
    if math.isnan(f.min_deadline_low_s) and math.isinf(f.min_deadline_high_s):
        return "too few for a 95% interval"
    high, beside = f.min_deadline_high_s, f.min_deadline_s
    upper = seconds(high, beside=beside) if math.isfinite(high) else "beyond what was seen"
    if math.isnan(f.min_deadline_low_s):
        return f"too few for the lower end of a 95% interval; its upper end is {upper}"
    return f"95% interval {seconds(f.min_deadline_low_s, beside=beside)} to {upper}"


def _because(plan: budgets.Allocation) -> str:
    f = plan.feasibility
    if f.verdict == "feasible":
        return f"{share(f.p_deadline)} is at least the {plan.percentile:.10g}% asked for."
    return f"Even the interval's upper end, {share(f.p_high)}, is below {plan.percentile:.10g}%."


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
        + f" {_elsewhere(scope, question)}"
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


def _elsewhere(scope: Scope, question: Question) -> str:
    """The command that gives this plan, or one like it."""
    words = ["hopbudget", "allocate", scope.source.path, "--workload", scope.workload]
    for key, value in scope.filters:
        words += ["--where", f"{key}={value}"]
    words += ["--deadline", link.chosen(link.DEADLINE) or f"{question.deadline_s:.10g}s"]
    usual = (("--percentile", f"{question.percentile:g}", "90"), ("--binds", question.binds, "last"))
    for option, value, default in (*usual, ("--method", question.method, "auto"), ("--slots", question.slots, "name")):
        words += [option, value] if value != default else []
    gives = "learns from all of them" if learned(scope).sampled else "gives this plan"
    return f"`{shlex.join(words)}` {gives}."
