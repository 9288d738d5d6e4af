"""A client that makes spans of its calls itself, as Anthropic's does: with capture of ours around it or without."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store.duck import Store
from hopbudget.store.spool import files, spool_folder

pytest.importorskip("anthropic._tracing", reason="an older client makes no spans")
serving = pytest.importorskip("hopbudget.endpoint.serving")

PROGRAM = """
import sys
import anthropic
import hopbudget as hb

hb.init("traces.duckdb")
if sys.argv[2] == "captured":
    hb.instrument()
asked = {"model": "sim-small", "messages": [{"role": "user", "content": "hi"}]}
told = {"max_tokens": 50, "extra_headers": {"x-hopbudget-ttft": "0.05", "x-hopbudget-tokens": "10"}}
with anthropic.Anthropic(base_url=sys.argv[1], api_key="k", max_retries=0) as client, hb.trajectory("agent"):
    try:
        client.messages.count_tokens(**asked)
    except anthropic.NotFoundError:
        pass
    client.messages.create(**asked, **told)
    for _ in client.messages.create(**asked, **told, stream=True):
        pass
    with client.messages.stream(**asked, **told) as stream:
        stream.get_final_message()
assert hb.flush()
"""
COLUMNS = ("hop", "streamed", "source", "ttft_source", "output_tokens", "outcome")
CALLS = (("chat", False), ("chat", True), ("chat", True))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving.running_apart(seed=3) as url:
        yield url


@pytest.fixture(scope="module", params=["captured", "alone"])
def ran(request: pytest.FixtureRequest, address: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Whether capture of ours was on, and where the program ran."""
    folder = tmp_path_factory.mktemp(request.param)
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ANTHROPIC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, address, request.param], cwd=folder, env=settings, timeout=60,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return request.param, folder


def expected(how: str) -> list[tuple[Any, ...]]:
    source, first = ("hopbudget + Anthropic client", "token") if how == "captured" else ("Anthropic client", "chunk")
    return [(hop, streamed, source, f"first_{first}" if streamed else None, 10, "ok") for hop, streamed in CALLS]


def found(store: Store) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The rows of its hops, and the names of its works."""
    with store.reading() as con:
        hops = con.execute(f"SELECT {', '.join(COLUMNS)} FROM hops ORDER BY start_s").fetchall()
        return hops, [name for (name,) in con.execute("SELECT work FROM works").fetchall()]


def test_a_call_is_one_hop_and_what_is_no_call_is_none(ran: tuple[str, Path], tmp_path: Path) -> None:
    """The same from files: what was left in the spool, imported."""
    how, folder = ran
    imported = Store(tmp_path / "imported.duckdb")
    imported.import_paths([file.path for file in files(spool_folder(folder / "traces.duckdb"))])
    assert found(imported) == (expected(how), ["anthropic.messages.count_tokens"])
    drained = Store(folder / "traces.duckdb")
    drained.drain()
    assert found(drained) == found(imported)
