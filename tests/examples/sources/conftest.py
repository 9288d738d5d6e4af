"""Agents traced by other people's instrumentations, exporting for real to `hopbudget serve`.

As with the examples, each source gets an environment of its own, and nothing runs unless HOPBUDGET_EXAMPLES is set.
With HOPBUDGET_RECORD, what was sent is kept, without content, for `tests/store/test_recorded_sources.py`.
"""

import gzip
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from hopbudget.store import otlp, protobuf
from hopbudget.store.duck import Store
from hopbudget.store.rewriting import lines
from hopbudget.store.spans import Span
from hopbudget.store.spool import files, spool_folder

ROOT: Final = Path(__file__).resolve().parents[3]
BUILD: Final = ROOT / "build" / "examples"
PROGRAM: Final = Path(__file__).resolve().parent / "traced.py"
RECORDED: Final = ROOT / "tests" / "store" / "recorded"
RUN_S: Final = 150
BUILD_S: Final = 900
QUIET_NS: Final = 60_000_000_000
"""More than the time after which a trace is taken to be whole."""

EXPORTER: Final = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
OPENINFERENCE: Final = "openinference-instrumentation-openai"
OPENLLMETRY: Final = "opentelemetry-instrumentation-openai"
GENAI: Final = "opentelemetry-instrumentation-genai-openai"
PACKAGES: Final = {
    "openinference": ("openai", OPENINFERENCE, *EXPORTER),
    "json_exporter": ("openai", OPENINFERENCE, "opentelemetry-sdk", "opentelemetry-exporter-otlp-json-http"),
    "phoenix": ("openai", "arize-phoenix-otel", OPENINFERENCE),
    "openllmetry": ("openai", OPENLLMETRY, *EXPORTER),
    "genai": ("openai", GENAI, *EXPORTER),
    "stacked": ("openai", OPENINFERENCE, OPENLLMETRY, GENAI, *EXPORTER, "-e", f"{ROOT}[local]"),
    "logfire": ("openai", "logfire"),
    "langfuse": ("openai", "langfuse"),
    "pydantic_ai": ("pydantic-ai-slim[openai]", *EXPORTER),
    "langgraph": ("langgraph", "langchain", "langchain-openai", "openinference-instrumentation-langchain", *EXPORTER),
    "openai_agents": ("openai-agents", "openinference-instrumentation-openai-agents", *EXPORTER),
    "openai_agents_genai": ("openai-agents", "opentelemetry-instrumentation-genai-openai-agents", GENAI, *EXPORTER),
    "smolagents": ("smolagents[openai]", "openinference-instrumentation-smolagents", *EXPORTER),
    "litellm": ("litellm", *EXPORTER),
}
"""What each source needs; `hopbudget` is not among it, but where its own capture comes on top."""
SAME_ENVIRONMENT: Final = {"stacked_pair": "stacked"}


@dataclass(frozen=True)
class Ran:
    """What the store has of a run, what was sent to the agent meanwhile, and how the agent ended."""

    seen: Any
    sent: Sequence[dict[str, Any]]
    status: int
    output: str


@pytest.fixture(scope="session")
def traced(
    variables: Callable[[Path, Any], dict[str, str]],
    look: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Ran]:
    """Runs an agent with a source's instrumentation once for each place, with a receiver of its own.

    `capture` puts `hopbudget trace` around it; then, too, it is what was exported that is looked at.
    """
    known: dict[tuple[str, str, Any, bool], Ran] = {}

    def run(source: str, agent: str, place: Any, *, record: str | None = None, capture: bool = False) -> Ran:
        key = (source, agent, place, capture)
        if key in known:
            return known[key]
        folder = tmp_path_factory.mktemp(source)
        store = folder / "traces.duckdb"
        before = len(place.sent())
        commands = _environment(source)
        own = [commands / "hopbudget", "trace", "--store", folder / "own.duckdb", "--"] if capture else []
        kept: list[tuple[bool, bytes]] = []
        with serving(store) as receiver, tee(receiver, kept) as address:
            done = subprocess.run(
                [*own, commands / "python", PROGRAM, source, agent],
                cwd=folder,
                env=variables(commands, place) | _exporting(address),
                capture_output=True,
                text=True,
                timeout=RUN_S,
                check=False,
            )
        sent = place.sent()[before:]
        if record and os.environ.get("HOPBUDGET_RECORD"):
            _record(record, kept, sent)
        Store(store).settle(time.time_ns() + QUIET_NS)
        known[key] = Ran(look(store, sent), sent, done.returncode, done.stdout + done.stderr)
        return known[key]

    return run


def _exporting(address: str) -> dict[str, str]:
    return {
        "PYTHONPATH": str(ROOT / "examples"),
        "OTEL_SERVICE_NAME": "day-trips",
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_TRACES_EXPORTER": "otlp",
        # The instrumentation of the Agents SDK hears nothing if its tracing is off.
        "OPENAI_AGENTS_DISABLE_TRACING": "0",
    }


@pytest.fixture(scope="session")
def source_environment() -> Callable[[str], Path]:
    """Makes the environment of a source unless it is made, and gives the folder of its commands."""
    return _environment


def _environment(source: str) -> Path:
    name = SAME_ENVIRONMENT.get(source, source)
    folder = BUILD / f"source_{name}"
    made = folder / "made"
    wanted = "\n".join([sys.version, *PACKAGES[name]])
    if not (made.is_file() and made.read_text() == wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES[name]], check=True, timeout=BUILD_S)
        made.write_text(wanted)
    return folder / "bin"


@contextmanager
def serving(store: Path) -> Iterator[str]:
    """`hopbudget serve` on a free port; what it took is in the store when the block is over."""
    command = [sys.executable, "-m", "hopbudget", "serve", "--port", "0", "--store", str(store)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    try:
        yield child.stdout.readline().removeprefix("listening on ").partition(",")[0]
    finally:
        child.terminate()
        child.stdout.close()
        child.wait(timeout=30)
    assert list(files(spool_folder(store))) == []


class _Tee(BaseHTTPRequestHandler):
    to: str
    kept: list[tuple[bool, bytes]]

    def do_POST(self) -> None:
        """Keep a request, pass it on, and answer as the receiver did."""
        body = self.rfile.read(int(self.headers["content-length"]))
        plain = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        self.kept.append(("json" in self.headers["content-type"], plain))
        headers = {name: value for name, value in self.headers.items() if name.lower().startswith("content-")}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.to + self.path, body, headers)) as answer:
                status, said, media = answer.status, answer.read(), answer.headers["content-type"]
        except urllib.error.HTTPError as error:
            status, said, media = error.code, error.read(), error.headers["content-type"]
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def tee(to: str, kept: list[tuple[bool, bytes]]) -> Iterator[str]:
    """A server that passes all that it gets on; `kept` has each body, unzipped, after whether it is JSON."""
    handler = type("Tee", (_Tee,), {"to": to, "kept": kept})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


SENT: Final = ("streamed", "status", "tokens", "first_token_s", "done_s")
OF_RESOURCES: Final = {"service.name", "service.version", "telemetry.sdk.language", "telemetry.sdk.name"}
OF_MACHINES: Final = (
    "code.",
    "process.",
    "host.",
    "os.",
    "thread.",
    "server.port",
    "logfire.",
    "metadata",
    "exception.s",
)


def _record(name: str, kept: Sequence[tuple[bool, bytes]], sent: Sequence[dict[str, Any]]) -> None:
    """Write what was exported as OTLP/JSON lines, without content and without what tells of the machine."""
    spans = [span for as_json, body in kept for span in (otlp if as_json else protobuf).decode(body).spans]
    for span in spans:
        _strip(span)
    (RECORDED / f"trip_{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines(spans)))
    shown = [{key: record[key] for key in SENT} for record in sent]
    (RECORDED / f"trip_{name}.sent.json").write_text(json.dumps(shown, indent=1) + "\n")


def _strip(span: Span) -> None:
    for attributes in (span.attributes, *(event.attributes for event in span.events or ())):
        for key in [key for key in attributes if key.startswith(OF_MACHINES)]:
            if key not in {"logfire.span_type", "logfire.level_num"}:
                del attributes[key]
    for key in [key for key in span.resource if key not in OF_RESOURCES]:
        del span.resource[key]
