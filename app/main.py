"""The app, as `streamlit run` executes it: four pages under one choice of workload and attributes."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Final

import streamlit as st

from hopbudget.app import breaching, frame, link, overview, planning, states, streams
from hopbudget.app.data import Scope
from hopbudget.config.places import store_path
from hopbudget.errors import UserError

# Inline, because the emoji that Streamlit offers for this are fetched from elsewhere.
_ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0072B2"/>'
    '<rect x="6" y="7" width="9" height="5" rx="1.5" fill="#fff"/>'
    '<rect x="12" y="14" width="8" height="5" rx="1.5" fill="#56B4E9"/>'
    '<rect x="17" y="21" width="6" height="5" rx="1.5" fill="#E69F00"/>'
    '<path d="M26 5v22" stroke="#fff" stroke-width="2" stroke-dasharray="3 2"/></svg>'
)
_PAGES: Final[dict[str, tuple[str, Callable[[Scope], None]]]] = {
    "overview": (":material/monitoring: Overview", overview.page),
    "breaches": (":material/timer_off: Breaches", breaching.page),
    "streams": (":material/graphic_eq: Streams", streams.page),
    "budgets": (":material/hourglass_top: Budgets", planning.page),
}


def main() -> None:
    """Draw the page that the address names, for the store that HOPBUDGET_STORE names or for sample data."""
    icon = "data:image/svg+xml;base64," + base64.b64encode(_ICON.encode()).decode()
    st.set_page_config("hopbudget", page_icon=icon, layout="wide", initial_sidebar_state="collapsed")
    draw = _chosen()
    path = frame.sample_path() or store_path()
    try:
        scope = frame.scope(path)
        if scope is None:
            states.nothing_yet(path)
        elif scope.filters and not frame.some(scope):
            states.nothing_left(scope)
        else:
            draw(scope)
    except UserError as error:
        states.trouble(error, Path(path))


def _chosen() -> Callable[[Scope], None]:
    """Draw the names of the pages; returns the one that is open.

    They share one path, told apart by the address's query: Streamlit's own pages have a path each, under which a
    reload asks for files that are not there.
    """
    unknown = link.settle(link.PAGE, list(_PAGES), "overview")
    head = st.columns([1, 5], vertical_alignment="center")
    head[0].markdown("### hopbudget")
    with head[1]:
        page = st.segmented_control(
            "Page",
            list(_PAGES),
            key=link.PAGE,
            format_func=lambda name: _PAGES[name][0],
            required=True,
            label_visibility="collapsed",
        )
    if unknown is not None:
        st.warning(f"The link names the page `{unknown}`, which is not one of {', '.join(_PAGES)}.")
    link.turn_to(str(page))
    return _PAGES[str(page)][1]


if __name__ == "__main__":
    main()
