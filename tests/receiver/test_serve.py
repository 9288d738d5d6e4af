"""`hopbudget serve` as people run it: a process, real exporters, a real store."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from hopbudget import cli
from hopbudget.store.duck import Store

from .conftest import request, span


@contextmanager
def served(store: Path, *options: str, **environment: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The command on a free port; gives its address."""
    command = [sys.executable, "-m", "hopbudget", "serve", "--port", "0", "--store", str(store), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)
    assert process.stdout
    try:
        found = re.match(r"listening on (\S+),", process.stdout.readline())
        assert found
        yield found[1], process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(30)
        process.stdout.close()


def send(url: str, body: bytes) -> int:
    with httpx2.Client(trust_env=False, timeout=30) as client:
        return client.post(f"{url}/v1/traces", content=body, headers={"content-type": "application/json"}).status_code


def stored(store: Path) -> list[str]:
    opened = Store(store)
    opened.drain()
    with opened.reading() as con:
        return [row[0] for row in con.execute("SELECT span_id FROM spans ORDER BY span_id").fetchall()]


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_official_exporter_fills_a_store(tmp_path: Path, compression: Compression) -> None:
    store = tmp_path / "traces.duckdb"
    with served(store) as (url, _):
        provider = TracerProvider(resource=Resource({"service.name": "agent"}), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{url}/v1/traces", compression=compression)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("t")
        with (
            tracer.start_as_current_span("invoke_agent a", attributes={"gen_ai.operation.name": "invoke_agent"}),
            tracer.start_as_current_span("chat m", attributes={"gen_ai.operation.name": "chat"}),
        ):
            pass
        provider.shutdown()
    with Store(store).reading() as con:
        assert con.execute("SELECT service, hop_count, complete FROM trajectories").fetchall() == [("agent", 1, True)]


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    store = tmp_path / "traces.duckdb"
    with served(store) as (url, process):
        assert [send(url, request(span(number))) for number in range(1, 6)] == [200] * 5
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert stored(store) == [f"{number:016x}" for number in range(1, 6)]


def test_what_is_sent_again_after_a_kill_is_stored_once(tmp_path: Path) -> None:
    store = tmp_path / "traces.duckdb"
    for _ in range(2):
        with served(store) as (url, process):
            assert send(url, request(span(1), span(2))) == 200
            process.send_signal(signal.SIGKILL)
            process.wait(30)
    assert stored(store) == [f"{1:016x}", f"{2:016x}"]


def test_it_ends_on_sigterm_with_all_in_the_store(tmp_path: Path) -> None:
    store = tmp_path / "traces.duckdb"
    with served(store) as (url, process):
        send(url, request(span()))
        process.terminate()
        assert process.wait(30) == 0
    assert [file for file in store.with_name(store.name + ".spool").iterdir() if file.suffix == ".jsonl"] == []
    assert stored(store) == [f"{1:016x}"]


def test_a_host_that_others_reach_needs_a_token(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.run(["serve", "--host", "0.0.0.0", "--port", "0", "--store", str(tmp_path / "s.duckdb")]) == 2
    assert "HOPBUDGET_TOKEN" in capsys.readouterr().err


def test_a_store_that_it_could_not_fill_is_refused_before_anything_is_acknowledged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store = tmp_path / "traces.duckdb"
    store.write_text("no database")
    assert cli.run(["serve", "--port", "0", "--store", str(store)]) == 2
    assert "is not a DuckDB file" in capsys.readouterr().err


def test_a_token_from_the_environment_is_asked_for(tmp_path: Path) -> None:
    with served(tmp_path / "s.duckdb", HOPBUDGET_TOKEN="right") as (url, _):
        assert send(url, request(span())) == 401
