"""What the page shows when there is nothing to show: what is so, and the command that changes it."""

from pathlib import Path

import streamlit as st

from hopbudget.errors import Exit, UserError


def nothing_yet(path: Path) -> None:
    """No store, or one without a trajectory: the three ways to fill it."""
    there = path.exists()
    st.subheader("Nothing recorded yet")
    st.markdown(
        f"The store `{path}` holds no trajectory."
        if there
        else f"There is no store at `{path}`. It is made by the first spans that come in."
    )
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
    again()


def trouble(error: UserError, path: Path) -> None:
    """The store can't be read: the sentence, and what to type."""
    st.subheader("This store can't be opened")
    st.error(error.message)
    if error.exit_code == Exit.ENVIRONMENT and "newer hopbudget" in error.message:
        st.code("pip install --upgrade 'hopbudget[app]'", language="bash")
    st.caption("Another store:")
    st.code("hopbudget app --store FILE", language="bash")
    st.caption(f"This one: `{path}`")
    again()


def again() -> None:
    """A button that looks again; pressing it is enough, because a press runs the page anew."""
    st.button("Look again", icon=":material/refresh:")
