"""Breaches: which causes and hops made trajectories late, what they share, what to turn, and each of them."""

from typing import Final

import streamlit as st

from hopbudget import budgets
from hopbudget.app import deadline, link, trajectory
from hopbudget.app.because import by_cause, by_hop, in_common
from hopbudget.app.data import Learned, Scope, breached, learned
from hopbudget.budgets.blame.breaches import Breaches
from hopbudget.budgets.numbers.paired import FEWEST_CLUSTERS
from hopbudget.render.breaches import place_name, rest_of_causes, rest_of_hops, shown_causes, shown_hops, told
from hopbudget.render.causes import NAME
from hopbudget.units import count, plural, seconds, share

_LEVERS_FROM: Final = 0.08
_MOST_LEVERS: Final = 4
_MOST_TRAITS: Final = 10
_LINES: Final = " Lines: 95% intervals of the shares."
_TOO_FEW: Final = f" Fewer than {FEWEST_CLUSTERS} sessions were late: too few for intervals."


def page(scope: Scope) -> None:
    """Draw the page."""
    from_these = learned(scope)
    try:
        deadline_s = deadline.slider(scope)
        found = breached(scope, deadline_s)
    except budgets.CannotAllocateError as error:
        st.info(f"Nothing can be explained yet: {error}.", icon=":material/help:")
        trajectory.section(scope, None, None)
        link.publish([], always=[link.WORKLOAD, link.WHERE, link.TRACE])
        return
    _figures(found)
    if found.counted > 1:
        _of_what(from_these, found)
    if found.late and found.excess_s <= 0:
        st.info("The deadline is below what is typical: being late is the rule here, and takes no explaining.")
    elif found.late:
        _causes(found)
        _shared(found)
        _levers(found)
    else:
        _nobody(found)
    trajectory.section(scope, deadline_s, found)
    link.publish([link.ORDER, link.METHOD, link.SLOTS], always=[link.WORKLOAD, link.WHERE, link.DEADLINE, link.TRACE])


def _nobody(found: Breaches) -> None:
    """That none was late, and of one trajectory that this says nothing yet."""
    if found.counted > 1:
        st.success("No trajectory took longer than this deadline.", icon=":material/check_circle:")
        return
    st.info(
        "There is one trajectory so far. It is the typical one itself: nothing to compare it with, and how often this "
        "deadline breaks is not known yet.",
        icon=":material/help:",
    )


def _figures(found: Breaches) -> None:
    columns = st.columns(4, border=True)
    with columns[0]:
        st.metric("Breached", share(found.share))
        st.caption(f"{count(found.breached)} of {count(found.counted)}; 95% {share(found.low)} to {share(found.high)}")
    with columns[1]:
        st.metric("Took longer", count(found.late))
        st.caption(f"typical: {seconds(found.reference.duration_s)}")
    with columns[2]:
        st.metric("Failed within it", count(found.failed))
        left_out = ", ".join(f"{count(n)} {reason.replace('_', ' ')}" for reason, n in found.left_out.items())
        st.caption(f"says nothing: {left_out}" if left_out else "their time needs no explaining")
    with columns[3]:
        st.metric("Over the typical, in all", seconds(found.excess_s))
        st.caption(f"{seconds(found.excess_s / found.late)} each, on average" if found.late else "nobody was late")


def _of_what(from_these: Learned, found: Breaches) -> None:
    words = f"Compared with {found.reference.description}."
    if from_these.sampled:
        of = plural(from_these.of, "trajectory", "trajectories")
        words += f" From {count(len(from_these.profile))} of {of}, always the same ones."
    st.caption(words)


def _causes(found: Breaches) -> None:
    columns = st.columns(2, gap="large")
    with columns[0]:
        st.subheader("Causes", anchor="causes")
        words = ", ".join(
            f"{NAME.get(cause.kind, cause.kind)} {share(cause.share)}"
            + ("" if cause.low != cause.low else f" (95% {share(cause.low)} to {share(cause.high)})")
            for cause in shown_causes(found)
        )
        rest = rest_of_causes(found)
        words += f", rest {share(rest[0])}" if rest is not None else ""
        st.altair_chart(by_cause(found).properties(description=f"Causes: {words}"))
        st.caption(
            f"Shares of the {seconds(found.excess_s)} that {plural(found.late, 'late one', 'late ones')} took over "
            "the typical; they add up to 100%. In brackets: how many have their largest part there."
            + (_LINES if any(cause.low == cause.low for cause in found.causes) else _TOO_FEW)
        )
        if found.told.hops:
            st.caption(told(found))
    with columns[1]:
        st.subheader("Where", anchor="where")
        words = ", ".join(f"{place_name(hop.name, hop.work)} {share(hop.share)}" for hop in shown_hops(found))
        others = rest_of_hops(found)
        words += f", others {share(others[0])}" if others is not None else ""
        st.altair_chart(by_hop(found).properties(description=f"Where: {words}"))
        st.caption(
            "The same seconds by hop and work, in the colours of their causes. Left of zero: time saved. Figures: both "
            "sides together; they add up to 100%."
        )


def _shared(found: Breaches) -> None:
    if not found.in_common:
        return
    st.subheader("What breached ones have in common", anchor="common")
    shown = found.in_common[:_MOST_TRAITS]
    words = "; ".join(f"{c.factor} {c.level} {100 * c.effect.difference:+.1f} points" for c in shown)
    st.altair_chart(in_common(shown).properties(description=f"In common: {words}"))
    st.caption(found.caution + " Observed concurrency is what traffic did, no server's limit.")
    with st.expander(f"All {count(len(found.in_common))} comparisons"):
        st.dataframe(
            [
                {
                    "of those with": f"{common.factor}: {common.level}",
                    "n": common.effect.n_with,
                    "breached": share(common.effect.risk_with),
                    "of the others": share(common.effect.risk_without),
                    "points": f"{100 * common.effect.difference:+.1f}",
                    "95% interval": f"{100 * common.effect.low:+.1f} to {100 * common.effect.high:+.1f}",
                    "ratio": f"{common.effect.ratio:.2f}" if common.effect.ratio == common.effect.ratio else "-",
                    "beyond chance": "yes" if common.effect.beyond_chance else "",
                }
                for common in found.in_common
            ],
            hide_index=True,
        )


def _levers(found: Breaches) -> None:
    causes = [cause for cause in found.causes if cause.share >= _LEVERS_FROM and cause.levers][:_MOST_LEVERS]
    if not causes:
        return
    st.subheader("What can be turned", anchor="levers")
    for column, cause in zip(st.columns(len(causes), border=True), causes, strict=True):
        with column:
            st.markdown(f"**{NAME.get(cause.kind, cause.kind).capitalize()}** :gray[· {share(cause.share)}]")
            st.markdown("\n".join(f"- {lever}" for lever in cause.levers))
