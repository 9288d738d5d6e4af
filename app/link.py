"""What a person has chosen, kept in the page's address so that a link opens the same view.

A widget's value goes with the widget when another page is opened. What was chosen is kept beside it, so that a deadline
chosen on one page is the deadline of the next.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import streamlit as st

PAGE: Final = "page"
WORKLOAD: Final = "workload"
WHERE: Final = "where"
BY: Final = "by"
DEADLINE: Final = "deadline"
PERCENTILE: Final = "percentile"
METHOD: Final = "method"
SLOTS: Final = "slots"
BINDS: Final = "binds"
ORDER: Final = "order"
OUTCOME: Final = "outcome"
TRACE: Final = "trace"
STREAM: Final = "stream"
PACE: Final = "pace"

_SHOWN: Final = "page-shown"
_KEPT: Final = "kept-choices"
_DEFAULTS: Final = "defaults-of-this-run"


def turn_to(page: str) -> None:
    """Bring what was chosen on other pages to this one, if it was not open before; what its address says counts more.

    Called before any widget is drawn: the value that a widget of the page before has left behind under the same key is
    not taken over by itself.
    """
    if st.session_state.get(_SHOWN) == page:
        return
    st.session_state[_SHOWN] = page
    for key, value in _kept().items():
        if key in st.query_params:
            st.session_state.pop(key, None)
        else:
            st.session_state[key] = value


def settle(
    key: str, options: Sequence[str], default: str, find: Callable[[str], str | None] | None = None
) -> str | None:
    """Give the widget `key` its value before it is drawn: what was chosen, else what the address says, else `default`.

    `find` turns an address's value that is no option into one of them, or into None. Returns a value of the address
    that means nothing here, for a notice; else None.
    """
    unknown = None
    if key not in st.session_state:
        asked = st.query_params.get(key)
        if asked is not None:
            chosen = asked if asked in options else find(asked) if find else None
            if chosen is None:
                unknown = asked
            else:
                st.session_state[key] = chosen
    if st.session_state.get(key) not in options:
        st.session_state[key] = default
    _defaults()[key] = default
    return unknown


def settle_many(key: str, known: Callable[[str], bool]) -> list[str]:
    """The same for a widget of several values, without any by default; returns those that mean nothing here."""
    if key not in st.session_state:
        asked = st.query_params.get_all(key)
        st.session_state[key] = [text for text in asked if known(text)]
        return [text for text in asked if not known(text)]
    return []


def chosen(key: str) -> str | None:
    """What is chosen, or asked for by the address, before the widget is drawn."""
    return st.session_state.get(key) or st.query_params.get(key)


def kept(key: str) -> str | None:
    """What was chosen for this key on a page that is no longer open; None where that is what it is by default."""
    value = _kept().get(key)
    return value if isinstance(value, str) and value != _defaults().get(key) else None


def follow(key: str, default: str) -> None:
    """Let a choice that nobody made go with its default, which is another one for what is shown now."""
    before = _defaults().get(key)
    if before not in (None, default) and st.session_state.get(key) == before:
        st.session_state[key] = default


def forget(*keys: str) -> None:
    """Choices that belong to a store, or to a workload, that is no longer shown."""
    for key in keys:
        _kept().pop(key, None)
        st.session_state.pop(key, None)
        st.query_params.pop(key, None)


def publish(keys: Iterable[str], always: Iterable[str] = ()) -> None:
    """Write the choices into the address: those of `always`, and those of `keys` that are not the default."""
    always, keys = (*always,), (PAGE, *always, *keys)
    wanted: dict[str, Any] = {}
    for key in keys:
        value = st.session_state.get(key)
        if value is None:
            continue
        if key != PAGE:
            _kept()[key] = value
        if value and (key in always or value != _defaults().get(key)):
            wanted[key] = value if isinstance(value, list) else str(value)
    if _address() != {key: value if isinstance(value, list) else [value] for key, value in wanted.items()}:
        st.query_params.from_dict(wanted)


def _address() -> Mapping[str, list[str]]:
    return {key: st.query_params.get_all(key) for key in st.query_params}


def _kept() -> dict[str, Any]:
    found: dict[str, Any] = st.session_state.setdefault(_KEPT, {})
    return found


def _defaults() -> dict[str, str]:
    found: dict[str, str] = st.session_state.setdefault(_DEFAULTS, {})
    return found
