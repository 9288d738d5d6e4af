"""`init` and `flush`, in processes of their own, because they set what is one per process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store.duck import Store

HEAD = """
import os, select, sys
import hopbudget as hb

def stay():
    # Python runs no handler of a signal that comes just before a system call that never returns.
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass

@hb.trajectory("agent")
def agent():
    with hb.hop("plan"):
        pass

"""


def start(code: str, tmp_path: Path, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + code],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def end(process: "subprocess.Popen[str]") -> str:
    """Wait for the process, its input still open; returns what it said since."""
    process.wait(timeout=60)
    return process.communicate()[0]


def run(code: str, tmp_path: Path) -> str:
    process = start(code, tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, ""), err
    return out


def spans(tmp_path: Path, store: str = "traces.duckdb") -> list[dict[str, Any]]:
    found = []
    for file in sorted((tmp_path / f"{store}.spool").glob("*.jsonl")):
        for line in file.read_text().splitlines():
            for resource in json.loads(line)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    found += [{**span, "resource": resource["resource"]} for span in scope["spans"]]
    return found


def outcomes(tmp_path: Path) -> dict[str, str]:
    return {
        span["name"]: next(a["value"]["stringValue"] for a in span["attributes"] if a["key"] == "hopbudget.outcome")
        for span in spans(tmp_path)
    }


def test_flush_blocks_and_returns_a_count(tmp_path: Path) -> None:
    assert run("hb.init(); agent(); print(hb.flush(), hb.flush())", tmp_path) == "2 0\n"
    assert [span["name"] for span in spans(tmp_path)] == ["chat", "invoke_agent agent"]


def test_a_short_script_loses_nothing(tmp_path: Path) -> None:
    run("hb.init(); agent()", tmp_path)
    assert len(spans(tmp_path)) == 2


def test_flush_before_init_is_nothing(tmp_path: Path) -> None:
    assert run("agent(); print(hb.flush())", tmp_path) == "0\n"


def test_init_twice_is_init_once(tmp_path: Path) -> None:
    assert run("hb.init(); hb.init(); agent(); print(hb.flush())", tmp_path) == "2\n"


def test_init_with_another_store_moves_on(tmp_path: Path) -> None:
    run("hb.init('a.duckdb'); agent(); hb.init('b.duckdb'); agent(); agent()", tmp_path)
    assert (len(spans(tmp_path, "a.duckdb")), len(spans(tmp_path, "b.duckdb"))) == (2, 4)


def test_the_store_stays_where_it_was_when_the_working_directory_changes(tmp_path: Path) -> None:
    run("hb.init(); os.chdir('/'); agent()", tmp_path)
    assert len(spans(tmp_path)) == 2


def test_the_service_is_named(tmp_path: Path) -> None:
    run("hb.init(service='shop'); agent()", tmp_path)
    attributes = {a["key"]: a["value"] for a in spans(tmp_path)[0]["resource"]["attributes"]}
    assert attributes["service.name"] == {"stringValue": "shop"}


def test_a_tracer_provider_that_is_set_goes_on_as_it_was(tmp_path: Path) -> None:
    code = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
hb.init()
assert trace.get_tracer_provider() is provider
agent()
print(hb.flush(), len(exporter.get_finished_spans()))
"""
    assert run(code, tmp_path) == "2 2\n"


def test_a_provider_that_takes_no_processor_is_named(tmp_path: Path) -> None:
    code = """
from opentelemetry import trace
from hopbudget.errors import UserError
trace.set_tracer_provider(trace.NoOpTracerProvider())
try:
    hb.init()
except UserError as error:
    print(error.message)
"""
    assert "NoOpTracerProvider" in run(code, tmp_path)


def test_a_tokenizer_is_used(tmp_path: Path) -> None:
    code = """
hb.init(tokenizer=lambda text: len(text))
with hb.hop("answer"):
    list(hb.watch(iter(["hello", "you"])))
"""
    run(code, tmp_path)
    found = {a["key"]: a["value"] for a in spans(tmp_path)[0]["attributes"]}
    assert found["hopbudget.output_tokens"] == {"intValue": "8"}
    assert found["hopbudget.output_tokens.source"] == {"stringValue": "tokenizer"}


def test_what_is_still_open_at_exit_is_ended(tmp_path: Path) -> None:
    code = """
hb.init()
@hb.hop("answer")
def answer():
    return iter(["a", "b"])
kept = answer()
next(kept)
"""
    run(code, tmp_path)
    assert outcomes(tmp_path) == {"chat": "closed_by_consumer"}


def test_sigterm_flushes_and_still_ends_the_process(tmp_path: Path) -> None:
    process = start("hb.init(); agent(); print('ready', flush=True); stay()", tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    end(process)
    assert process.returncode == -signal.SIGTERM
    assert len(spans(tmp_path)) == 2


def test_sigterm_ends_what_is_open(tmp_path: Path) -> None:
    code = """
hb.init()
with hb.trajectory("agent"), hb.hop("answer"):
    stream = hb.watch(iter(["a", "b"]))
    next(stream)
    print("ready", flush=True)
    stay()
"""
    process = start(code, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    end(process)
    assert process.returncode == -signal.SIGTERM
    assert outcomes(tmp_path) == {"chat": "closed_by_consumer", "invoke_agent agent": "closed_by_consumer"}


def test_sigterm_comes_through_while_the_disk_hangs(tmp_path: Path) -> None:
    code = """
from hopbudget import local
from hopbudget.recording import export
export.EXIT_WAIT_S = local.EXIT_WAIT_S = 0.1
hb.init(); agent()
with local._processor._writing:
    print("ready", flush=True)
    stay()
"""
    process = start(code, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    end(process)
    assert process.returncode == -signal.SIGTERM


def test_sigterm_goes_on_to_the_handler_that_was_there(tmp_path: Path) -> None:
    code = """
import signal
signal.signal(signal.SIGTERM, lambda number, frame: (print("mine", flush=True), sys.exit(7)))
hb.init(); agent(); print("ready", flush=True); stay()
"""
    process = start(code, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out = end(process)
    assert (out, process.returncode) == ("mine\n", 7)
    assert len(spans(tmp_path)) == 2


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    code = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
hb.init()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
"""
    run(code, tmp_path)


def test_init_in_a_thread_works_and_leaves_signals_alone(tmp_path: Path) -> None:
    code = """
import signal, threading
thread = threading.Thread(target=hb.init); thread.start(); thread.join()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
agent()
"""
    run(code, tmp_path)
    assert len(spans(tmp_path)) == 2


def test_sigkill_loses_only_what_was_not_flushed(tmp_path: Path) -> None:
    code = """
hb.init(); agent(); agent(); hb.flush(); print("ready", flush=True); stay()
"""
    process = start(code, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    end(process)
    assert len(spans(tmp_path)) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_writes_its_own_spans_and_not_its_parents(tmp_path: Path) -> None:
    code = """
hb.init(); agent()
child = os.fork()
if child == 0:
    agent()
    print("child", hb.flush(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("parent", hb.flush(), flush=True)
"""
    process = start(code, tmp_path)
    out, _ = process.communicate(timeout=60)
    assert out == "child 2\nparent 2\n"
    assert len({span["spanId"] for span in spans(tmp_path)}) == len(spans(tmp_path)) == 4


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_flush_as_they_end(tmp_path: Path, method: str) -> None:
    script = tmp_path / "script.py"
    body = f"""
import multiprocessing
hb.init()
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    worker = context.Process(target=agent); worker.start(); worker.join()
    print(worker.exitcode)
"""
    script.write_text(HEAD + body)
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "0\n", done.stderr
    assert len(spans(tmp_path)) == 2


@pytest.mark.parametrize("trouble", ["read_only", "full", "missing"])
def test_a_disk_in_trouble_is_not_the_applications(tmp_path: Path, trouble: str) -> None:
    code = f"""
import errno, pathlib
hb.init("gone/traces.duckdb")
from hopbudget import local
def fail(*_):
    raise OSError(dict(read_only=errno.EROFS, full=errno.ENOSPC, missing=errno.ENOENT)[{trouble!r}], "no")
local._processor.spool._write = fail
agent()
print(hb.flush())
agent()
"""
    process = start(code, tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "0\n")
    assert err.count("\n") == 1
    assert "spans can't be written" in err


@pytest.mark.parametrize("other", ["text", "empty", "folder"])
def test_a_path_that_is_no_duckdb_file_is_told_at_once_and_recording_goes_on(tmp_path: Path, other: str) -> None:
    path = tmp_path / "traces.duckdb"
    if other == "folder":
        path.mkdir()
    else:
        path.write_text("notes" * 5 if other == "text" else "")
    code = "print('before', file=sys.stderr); hb.init(); print('after', file=sys.stderr); agent(); print(hb.flush())"
    process = start(code, tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "2\n")
    before, told, after = err.splitlines()
    assert (before, after) == ("before", "after")
    assert told.startswith(f"{path} is no DuckDB file")
    assert f"kept in {path}.spool" in told
    assert len(spans(tmp_path)) == 2


def test_a_store_is_told_by_its_first_bytes_without_duckdb(tmp_path: Path) -> None:
    Store(tmp_path / "traces.duckdb").write([])
    assert run("hb.init(); agent(); print('duckdb' in sys.modules)", tmp_path) == "False\n"


def test_a_disk_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    code = """
import threading
hb.init()
from hopbudget import local
from hopbudget.recording import export
export.EXIT_WAIT_S = local.EXIT_WAIT_S = 0.1
local._processor.spool._write = lambda *_: threading.Event().wait()
agent()
"""
    run(code, tmp_path)
