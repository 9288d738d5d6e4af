"""The section of the plan: a deadline set with a slider, allotted, and whether it can be met."""

import math
from collections.abc import Mapping
from typing import Final, cast

import streamlit as st

from hopbudget import budgets
from hopbudget.app import allotted, link
from hopbudget.app.axis import deadlines
from hopbudget.app.data import Question, Source, allocation, attained, plan_file, profile
from hopbudget.app.spread import Spread, trajectory_spread
from hopbudget.app.strips import against
from hopbudget.errors import UserError
from hopbudget.units import count, parse_duration, parse_percentile, seconds, share

_NAMED: Final = (50.0, 75.0, 90.0, 95.0, 99.0)
_DEFAULT: Final = "p90"
_TOO_NEAR: Final = 0.012
_PERCENTILES: Final = ("50", "75", "90", "95", "99")
_METHODS: Final[Mapping[str, str]] = {
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


def section(source: Source, workload: str) -> budgets.Allocation | None:
    """Draw the section; returns the plan it shows, None where there is nothing to learn from."""
    st.header("Plan", anchor="plan")
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
            deadline_s = _deadline(source, workload, binds)
        question = Question(deadline_s, percentile, binds, cast(budgets.Method, method), cast(budgets.SlotKind, slots))
        plan = allocation(source, workload, question)
    except budgets.CannotAllocateError as error:
        st.info(f"No plan yet: {error}.")
        return None
    _show(plan, workload, trajectory_spread(profile(source, workload)))
    return plan


def _choice(key: str, label: str, options: Mapping[str, str]) -> str:
    link.settle(key, list(options), next(iter(options)))
    return str(st.selectbox(label, list(options), key=key, format_func=lambda option: options[option]))


def _percentile() -> float:
    link.settle(link.PERCENTILE, _PERCENTILES, "90")
    chosen = st.segmented_control(
        "Share of trajectories that shall be in time", _PERCENTILES, key=link.PERCENTILE, format_func=lambda p: f"{p}%"
    )
    return float(chosen or 90)


def _deadline(source: Source, workload: str, binds: budgets.Binds) -> float:
    """The slider: observed percentiles among round deadlines, named as the command line takes them."""
    choices = _deadlines(source, workload, binds)
    default = _DEFAULT if _DEFAULT in choices else next(reversed(choices))
    unknown = link.settle(link.DEADLINE, list(choices), default)

    def words(choice: str) -> str:
        named = f" ({choice})" if choice.startswith("p") else ""
        return seconds(choices[choice]) + named

    chosen = st.select_slider("Deadline", list(choices), key=link.DEADLINE, format_func=words)
    if unknown is not None:
        st.caption(f"The link's deadline {unknown!r} can't be read; write it like `12s` or `p90`.")
    return choices[str(chosen)]


def _deadlines(source: Source, workload: str, binds: budgets.Binds) -> dict[str, float]:
    named = {f"p{p:g}": attained(source, workload, binds, p) for p in _NAMED}
    named = {name: value for name, value in named.items() if math.isfinite(value) and value > 0}
    asked = st.session_state.get(link.DEADLINE) or st.query_params.get(link.DEADLINE) or ""
    extra = _asked(source, workload, binds, asked)
    spread = trajectory_spread(profile(source, workload))
    seen = [*named.values(), *(spread.dots if spread else ())] or [1.0]
    low, high = attained(source, workload, binds, 10), max(seen)
    low = low if math.isfinite(low) and low > 0 else min(seen)
    found = dict(named)
    for value in deadlines(0.6 * low, 1.3 * high):
        if all(abs(value - other) > _TOO_NEAR * value for other in named.values()):
            found[f"{value:g}s"] = value
    if extra is not None:
        found.setdefault(asked, extra)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _asked(source: Source, workload: str, binds: budgets.Binds, text: str) -> float | None:
    """Seconds of a deadline that a link asks for, None where it is none."""
    try:
        percentile = parse_percentile(text)
        value = (
            parse_duration(text, "deadline") if percentile is None else attained(source, workload, binds, percentile)
        )
    except UserError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _show(plan: budgets.Allocation, workload: str, spread: Spread | None) -> None:
    if spread is not None and plan.binds == "last":
        drawn = against(spread, plan.deadline_s)
        st.altair_chart(drawn.properties(description=f"Trajectory times against {seconds(plan.deadline_s)}"))
    _feasibility(plan)
    st.subheader(f"{seconds(plan.deadline_s)}, allotted", anchor="allotted")
    told = ", ".join(f"{part.name} {seconds(part.size_s)}" for part in allotted.segments(plan))
    st.altair_chart(allotted.bar(plan).properties(description=f"Budgets: {told}"))
    st.caption("Bars: the budget. Ticks: what was observed there, p50 heavy, p90 light.")
    st.altair_chart(allotted.beside_observed(plan).properties(description="Budgets beside what was observed"))
    if plan.stream is not None:
        _stream(plan.stream)
    for note in plan.notes:
        st.caption(f"Note: {note}.")
    _foot(plan, workload)


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
        st.caption(f"95% interval {share(plan.kept.low)} to {share(plan.kept.high)}, n = {count(plan.kept.n)}")
    with columns[3]:
        st.metric(f"Verdict for {plan.percentile:g}%", f.verdict.capitalize())
        st.caption(f":{colour}[{icon}] " + (f"To decide: {f.needs}." if f.needs else _because(plan)))


def _interval(f: budgets.Feasibility) -> str:
    if not math.isfinite(f.min_deadline_low_s):
        return "so many failed that no deadline would do"
    upper = seconds(f.min_deadline_high_s) if math.isfinite(f.min_deadline_high_s) else "beyond what was seen"
    return f"95% interval {seconds(f.min_deadline_low_s)} to {upper}"


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
    columns[2].metric("Up to (N)", "-" if stream.tokens is None else f"{count(stream.tokens)} tokens")
    columns[3].metric("Kept together by", share(stream.joint))
    if stream.tokens is not None and stream.tokens_percentile:
        st.caption(
            f"{count(stream.tokens)} tokens is p{stream.tokens_percentile:.3g} of N. "
            f"TTFT and TPOT both stand at their p{100 * stream.level:.3g}, so that they hold together."
        )


def _foot(plan: budgets.Allocation, workload: str) -> None:
    learned = plan.learned_from
    runs = f" in {count(learned.runs)} run{'s' * (learned.runs > 1)}" if learned.runs else ""
    left_out = ", ".join(f"{count(n)} {reason.replace('_', ' ')}" for reason, n in learned.left_out.items() if n)
    columns = st.columns([4, 1], vertical_alignment="center")
    columns[0].caption(
        f"Learned from {count(learned.trajectories)} trajectories{runs}"
        + (f" of {', '.join(learned.models)}" if learned.models else "")
        + (f"; left out: {left_out}" if left_out else "")
        + ". Budgets are for blame and design, no hard stops: time left over is the next one's."
    )
    columns[1].download_button(
        "Download plan.toml",
        data=plan_file(plan, workload),
        file_name="plan.toml",
        mime="application/toml",
        on_click="ignore",
        icon=":material/download:",
        key="download-plan",
    )
