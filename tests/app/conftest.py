"""A store of recorded runs, the page on it, and a look into what the page draws."""

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.ipc
import pytest
from streamlit.testing.v1 import AppTest

from hopbudget import budgets
from hopbudget.store import queries
from hopbudget.store.duck import Store

Spec = dict[str, Any]


def page_file() -> Path:
    found = importlib.util.find_spec("hopbudget.app.main")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin)


@pytest.fixture(scope="session")
def page() -> Path:
    """The file that Streamlit runs."""
    return page_file()


@pytest.fixture(scope="session")
def recorded_store(recorded_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "traces.duckdb"
    Store(path).import_paths([recorded_runs])
    return path


@pytest.fixture(scope="session")
def recorded_profile(recorded_store: Path) -> budgets.Profile:
    with Store(recorded_store).reading() as con:
        return queries.profile(con, queries.Where(workload="research"))


@pytest.fixture
def open_page(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., AppTest]]:
    """Runs one of the pages on a store, with these words in its address, in a folder without a configuration."""

    def run(store: Path, name: str = "overview", **address: str | list[str]) -> AppTest:
        monkeypatch.setenv("HOPBUDGET_STORE", str(store))
        opened = AppTest.from_file(str(page), default_timeout=60)
        opened.query_params.update({"page": name, **address})
        return opened.run()

    monkeypatch.chdir(tmp_path)
    yield run


@pytest.fixture
def go() -> Callable[[AppTest, str], AppTest]:
    """Opens another page in the same session, as a click on its name does."""

    def to(opened: AppTest, name: str) -> AppTest:
        opened.segmented_control(key="page").set_value(name)
        return opened.run()

    return to


@pytest.fixture
def drawn() -> Callable[[AppTest, str], Spec]:
    """The chart whose description begins so."""

    def find(opened: AppTest, begins: str) -> Spec:
        for chart in opened.get("vega_lite_chart"):
            spec = json.loads(chart.proto.spec, parse_constant=pytest.fail)
            if str(spec.get("description", "")).startswith(begins):
                tables = {table.name: pyarrow.ipc.open_stream(table.data.data) for table in chart.proto.datasets}
                return {**spec, "rows": {name: table.read_all().to_pylist() for name, table in tables.items()}}
        pytest.fail(f"no chart is described as {begins!r}")

    return find


@pytest.fixture
def marks() -> Callable[[Spec, str], list[dict[str, Any]]]:
    """The rows behind all marks of one type in a chart."""

    def rows(spec: Spec, mark: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for layer in spec["layer"]:
            if layer["mark"]["type"] == mark:
                found += spec["rows"][(layer.get("data") or spec["data"])["name"]]
        return found

    return rows


@pytest.fixture
def figures() -> Callable[[AppTest], dict[str, str]]:
    """What the page's figures say, by label."""
    return lambda opened: {figure.label: str(figure.value) for figure in opened.metric}


@pytest.fixture
def write_runs() -> Callable[[Path, dict[str, str]], Path]:
    """Adds one-hop trajectories to a store in a folder, by the beginning of the trace's id and the outcome."""

    def write(folder: Path, outcomes: dict[str, str]) -> Path:
        lines = []
        for index, (begins, outcome) in enumerate(outcomes.items()):
            trace_id, start = begins.ljust(32, "0"), 1_767_225_600_000_000_000 + index * 60_000_000_000
            root = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "small", "hopbudget.outcome": outcome}
            hop = {"gen_ai.operation.name": "chat", "hopbudget.hop": "ask", "hopbudget.outcome": outcome}
            spans = [
                _span(trace_id, "1" * 16, "", start, 2.0 + index, root),
                _span(trace_id, "2" * 16, "1" * 16, start, 1.5 + index, hop),
            ]
            lines.append(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
        recorded = folder / f"{'-'.join(outcomes)}.jsonl"
        recorded.write_text("\n".join(lines))
        store = folder / "traces.duckdb"
        Store(store).import_paths([recorded])
        return store

    return write


def _span(trace_id: str, span_id: str, parent: str, start: int, size_s: float, attributes: dict[str, str]) -> Spec:
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": "span",
        "kind": 3,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + int(size_s * 1e9)),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        "status": {},
    }
