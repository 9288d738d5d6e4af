"""What a page shows when there is nothing to show: what is so, and what changes it."""

from pathlib import Path

import streamlit as st

from hopbudget.app import frame, link
from hopbudget.app.data import Scope
from hopbudget.errors import Exit, UserError


def nothing_yet(path: Path) -> None:
    """No store, or one without a trajectory: sample data, and three ways to fill it."""
    there = path.exists()
    st.header("Nothing recorded yet", anchor=False)
    st.markdown(
        f"The store `{path}` holds no trajectory."
        if there
        else f"There is no store at `{path}`. It is made by the first spans that come in."
    )
    row = st.columns([1.2, 1, 4])
    row[0].button(
        "Show sample data",
        type="primary",
        icon=":material/science:",
        key="show-sample",
        on_click=frame.show_sample,
        width="stretch",
    )
    with row[1]:
        again()
    ways = st.columns(3, border=True)
    with ways[0]:
        st.markdown("**See it on a simulated agent**")
        st.caption("An eight-hop research agent against a simulated endpoint: no GPU, no network, no key.")
        st.code(f"hopbudget demo --store {path}", language="bash", wrap_lines=True)
    with ways[1]:
        st.markdown("**Import recorded spans**")
        st.caption("OTLP/JSON of any tracer that follows the GenAI conventions.")
        st.code(f"hopbudget import runs.jsonl --store {path}", language="bash", wrap_lines=True)
    with ways[2]:
        st.markdown("**Trace your own agent**")
        st.caption("Two decorators; spans go to the store's spool.")
        st.code(
            f'import hopbudget as hb\n\nhb.init("{path}")\n\n@hb.trajectory("my-agent")\ndef answer(question): ...',
            language="python",
            wrap_lines=True,
        )


def nothing_left(scope: Scope) -> None:
    """The filter leaves no trajectory."""
    told = " and ".join(f"`{key}={value}`" for key, value in scope.filters)
    st.info(f"No trajectory of `{scope.workload}` has {told}.", icon=":material/filter_alt_off:")
    st.button("Clear the filter", key="clear-filter", on_click=lambda: link.forget(link.WHERE))
    link.publish([], always=[link.WORKLOAD, link.WHERE])


def trouble(error: UserError, path: Path) -> None:
    """The store can't be read: the sentence, and what to type."""
    st.header("This store can't be opened", anchor=False)
    st.error(error.message)
    if error.exit_code == Exit.ENVIRONMENT and "newer hopbudget" in error.message:
        st.code("pip install --upgrade 'hopbudget[app]'", language="bash")
    st.caption("Another store:")
    st.code("hopbudget app --store FILE", language="bash")
    st.caption(f"This one: `{path}`")
    again()


def again() -> None:
    """A button that looks again; pressing it is enough, because a press runs the page anew."""
    st.button("Look again", icon=":material/refresh:", key="look-again", width="stretch")
