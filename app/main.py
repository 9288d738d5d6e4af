"""The app's page, as `streamlit run` executes it: what the store holds, hops, a plan, one trajectory."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import streamlit as st

from hopbudget import budgets
from hopbudget.app import distributions, link, planning, states, trajectory
from hopbudget.app.data import Holdings, Source, holdings, profile, report, source
from hopbudget.config import store_path
from hopbudget.errors import UserError
from hopbudget.units import count

# Inline, because the emoji and icons that Streamlit offers for this are fetched from elsewhere.
_ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0072B2"/>'
    '<rect x="6" y="7" width="9" height="5" rx="1.5" fill="#fff"/>'
    '<rect x="12" y="14" width="8" height="5" rx="1.5" fill="#56B4E9"/>'
    '<rect x="17" y="21" width="6" height="5" rx="1.5" fill="#E69F00"/>'
    '<path d="M26 5v22" stroke="#fff" stroke-width="2" stroke-dasharray="3 2"/></svg>'
)


def main() -> None:
    """Draw the page for the store that HOPBUDGET_STORE names."""
    icon = "data:image/svg+xml;base64," + base64.b64encode(_ICON.encode()).decode()
    st.set_page_config("hopbudget", page_icon=icon, layout="wide", initial_sidebar_state="collapsed")
    path = store_path()
    try:
        now = _open(path)
        if now is None:
            st.title("hopbudget")
            states.nothing_yet(path)
            return
        _page(*now)
    except UserError as error:
        st.title("hopbudget")
        states.trouble(error, path)


def _open(path: Path) -> tuple[Source, Holdings] | None:
    """The store and what it holds; None where there is nothing yet. Raises UserError where it can't be read."""
    now = source(path)
    if now is None:
        return None
    held = holdings(now)
    return (now, held) if held.workloads else None


def _page(now: Source, held: Holdings) -> None:
    head = st.columns([3, 2], vertical_alignment="bottom")
    head[0].title("hopbudget", anchor=False)
    numbers = dict(held.workloads)
    unknown = link.settle(link.WORKLOAD, list(numbers), held.workloads[0][0])
    with head[1]:
        workload = str(
            st.selectbox(
                "Workload",
                list(numbers),
                key=link.WORKLOAD,
                format_func=lambda name: f"{name} ({count(numbers[name])} trajectories)",
            )
        )
    if unknown is not None:
        st.warning(f"The link names the workload `{unknown}`, which this store does not hold. Here is `{workload}`.")
    st.caption(_holds(now, held, workload))
    distributions.section(now, workload)
    plan = planning.section(now, workload)
    trajectory.section(now, workload, plan)
    _publish()


def _holds(now: Source, held: Holdings, workload: str) -> str:
    numbers = report(now, workload)
    words = [f"`{now.path}`", f"{count(numbers['trajectories'])} trajectories", f"{count(numbers['hops'])} hops"]
    words.append(_period(profile(now, workload)))
    if numbers["incomplete"]:
        words.append(f"{count(numbers['incomplete'])} without a root")
    lost = ", ".join(f"{count(spans)} {reason.replace('_', ' ')}" for reason, spans in held.dropped.items())
    words.append(f"spans dropped: {lost}" if lost else "no span dropped")
    return " · ".join(words)


def _period(profile: budgets.Profile) -> str:
    started = profile.trajectories.started_at
    first, last = (datetime.fromtimestamp(float(at), UTC) for at in (started.min(), started.max()))
    return f"{first:%Y-%m-%d %H:%M} to {last:{'%H:%M' if first.date() == last.date() else '%Y-%m-%d %H:%M'}} UTC"


def _publish() -> None:
    state = st.session_state
    defaults = {
        link.PERCENTILE: "90",
        link.METHOD: "independent",
        link.SLOTS: "name",
        link.BINDS: "last",
        link.ORDER: "slowest",
        link.OUTCOME: "any",
    }
    always = {key: state.get(key) for key in (link.WORKLOAD, link.DEADLINE, link.TRACE)}
    changed = {key: state.get(key) for key, default in defaults.items() if state.get(key) != default}
    link.publish(**always, **changed)


if __name__ == "__main__":
    main()
