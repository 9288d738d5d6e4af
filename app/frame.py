"""What stands above every page: the workload, the filter, what the store holds, and the watch for new spans."""

import tempfile
import time
from pathlib import Path
from typing import Final

import streamlit as st

from hopbudget.app import link
from hopbudget.app.data import Holdings, Scope, Source, choices, holdings, size, source
from hopbudget.demo import sample
from hopbudget.store.duck import Store
from hopbudget.units import count

_SAMPLE: Final = "sample-store"
_LIVE: Final = "live"
_LOOK_EVERY_S: Final = 2.0
_SAMPLE_TRAJECTORIES: Final = 1200
_OF_A_STORE: Final = (link.WORKLOAD, link.WHERE, link.BY, link.DEADLINE, link.TRACE, link.STREAM)


def scope(path: Path) -> Scope | None:
    """Draw the frame for the store at this path; None where it holds nothing yet. Raises UserError."""
    now = source(path)
    held = holdings(now) if now is not None else None
    if now is None or held is None or not held.workloads:
        _watch(path, now)
        return None
    head = st.columns([2, 5, 1], vertical_alignment="bottom", gap="medium")
    numbers = dict(held.workloads)
    unknown = link.settle(link.WORKLOAD, list(numbers), held.workloads[0][0])
    with head[0]:
        workload = str(
            st.selectbox(
                "Workload",
                list(numbers),
                key=link.WORKLOAD,
                format_func=lambda name: f"{name} ({count(numbers[name])})",
            )
        )
    with head[1]:
        filters, strange = _filters(now, workload)
    with head[2]:
        _watch(path, now)
    if unknown is not None:
        st.warning(f"The link names the workload `{unknown}`, which this store does not hold. Here is `{workload}`.")
    if strange:
        st.warning(f"The link's filter {', '.join(f'`{text}`' for text in strange)} can't be read as KEY=VALUE.")
    if sample_path() is not None:
        _of_sample()
    return Scope(now, workload, filters)


def some(scope: Scope) -> bool:
    """Whether the filter leaves any trajectory."""
    return size(scope) > 0


def lost(held: Holdings) -> str:
    """What never reached the store, in words."""
    told = ", ".join(f"{count(spans)} {reason.replace('_', ' ')}" for reason, spans in held.dropped.items())
    return f"spans dropped: {told}" if told else "no span dropped"


def _filters(now: Source, workload: str) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    """The filter's widget; the pairs that hold, one value a key, and what of a link can't be read."""
    known = choices(now, workload)
    options = [f"{key}={value}" for key, values in known.items() for value, _ in values]
    strange = link.settle_many(link.WHERE, lambda text: bool(text.partition("=")[1] and text.partition("=")[0]))
    asked = st.session_state[link.WHERE]
    chosen = st.multiselect(
        "Only trajectories with",
        [*options, *(text for text in asked if text not in options)],
        key=link.WHERE,
        placeholder="any attribute: type a key or a value",
        accept_new_options=True,
        help="Each choice narrows further; of two values of one key the later one counts.",
    )
    pairs = {}
    for text in chosen:
        key, equals, value = str(text).partition("=")
        if equals and key:
            pairs[key.strip()] = value.strip()
    return tuple(pairs.items()), strange


def _watch(path: Path, now: Source | None) -> None:
    """Look for new spans every two seconds, and draw the page anew when there are some."""
    live = st.toggle("Live", value=True, key=_LIVE, help="Follow the store while agents run.")
    seen = now.stamp if now is not None else None

    @st.fragment(run_every=_LOOK_EVERY_S if live else None)
    def look() -> None:
        later = source(path)
        if (later.stamp if later is not None else None) != seen:
            st.rerun(scope="app")

    if live:
        look()


def sample_path() -> Path | None:
    """The store of sample data, where this session shows it."""
    found = st.session_state.get(_SAMPLE)
    return Path(found) if found else None


def show_sample() -> None:
    """Make sample data and show it in this session."""
    link.forget(*_OF_A_STORE)
    st.session_state[_SAMPLE] = str(_sample_store())


def _leave_sample() -> None:
    link.forget(*_OF_A_STORE)
    del st.session_state[_SAMPLE]


@st.cache_resource(show_spinner="Making sample data")
def _sample_store() -> Path:
    """A store of made-up trajectories of the last week, made once a server and gone with it."""
    folder = tempfile.TemporaryDirectory(prefix="hopbudget-sample-", ignore_cleanup_errors=True)
    _folders.append(folder)
    recorded = Path(folder.name) / "sample.jsonl"
    recorded.write_bytes(b"".join(sample.lines(sample.runs(_SAMPLE_TRAJECTORIES, time.time()))))
    store = Path(folder.name) / "sample.duckdb"
    Store(store).import_paths([recorded])
    recorded.unlink()
    return store


_folders: Final[list["tempfile.TemporaryDirectory[str]"]] = []


def _of_sample() -> None:
    row = st.columns([6, 1], vertical_alignment="center")
    row[0].info("Sample data: two made-up agents on a simulated GPU, the last seven days.", icon=":material/science:")
    row[1].button("Leave it", on_click=_leave_sample, key="leave-sample", width="stretch")
