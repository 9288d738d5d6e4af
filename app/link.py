"""What a person has chosen, kept in the page's address so that a link opens the same view."""

from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

WORKLOAD: Final = "workload"
DEADLINE: Final = "deadline"
PERCENTILE: Final = "percentile"
METHOD: Final = "method"
SLOTS: Final = "slots"
BINDS: Final = "binds"
ORDER: Final = "order"
OUTCOME: Final = "outcome"
TRACE: Final = "trace"


def settle(
    key: str, options: Sequence[str], default: str, find: Callable[[str], str | None] | None = None
) -> str | None:
    """Give the widget `key` its value before it is drawn: what was chosen, else what the address says, else `default`.

    `find` turns an address's value that is no option into one of them, or into None. Returns a value of the address
    that means nothing here, for a notice; else None.
    """
    unknown = None
    if key not in st.session_state and key in st.query_params:
        asked = st.query_params[key]
        chosen = asked if asked in options else find(asked) if find else None
        if chosen is None:
            unknown = asked
        else:
            st.session_state[key] = chosen
    if st.session_state.get(key) not in options:
        st.session_state[key] = default
    return unknown


def publish(**chosen: str | None) -> None:
    """Write the choices into the address; None leaves one out."""
    wanted = {key: value for key, value in chosen.items() if value is not None}
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)
