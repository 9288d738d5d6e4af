"""What the receiver takes to take in 5,000 spans a second for a minute: memory, processor time, and how it keeps up."""

import gzip
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

import httpx2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_RATE = 5_000
_BATCH = 500
_SECONDS = 60
_TARGET_MB = 300
_ATTRIBUTES = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4.1",
    "gen_ai.usage.input_tokens": 1234,
    "gen_ai.usage.output_tokens": 210,
    "gen_ai.response.time_to_first_chunk": 0.412,
    "hopbudget.hop": "plan",
}


def run() -> str:
    """Measure, and return a Markdown section."""
    rows = [_measure("protobuf"), _measure("json, gzip")]
    lines = [
        "## Receiver",
        "",
        f"`hopbudget serve` under {_RATE:,} spans a second for {_SECONDS} s, in requests of {_BATCH} spans from one "
        "client, drained into the store all the while.",
        "",
        "| encoding | spans a second taken | answer, p50 | p99 | processor, of one core | peak memory, MB "
        f"(at most {_TARGET_MB}) | still to drain at the end |",
        "|---|---|---|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def _measure(encoding: str) -> str:
    with tempfile.TemporaryDirectory(prefix="hopbudget-bench-") as folder, _served(Path(folder)) as (url, process):
        bodies = _bodies(encoding)
        headers = {"content-type": "application/x-protobuf" if encoding == "protobuf" else "application/json"}
        if "gzip" in encoding:
            headers["content-encoding"] = "gzip"
        answers = []
        with httpx2.Client(trust_env=False, timeout=60) as client:
            begun = time.perf_counter()
            for number in range(_RATE * _SECONDS // _BATCH):
                body = next(bodies)
                time.sleep(max(0.0, begun + number * _BATCH / _RATE - time.perf_counter()))
                asked = time.perf_counter()
                client.post(f"{url}/v1/traces", content=body, headers=headers).raise_for_status()
                answers.append(time.perf_counter() - asked)
            seconds = time.perf_counter() - begun
            waiting = client.get(f"{url}/healthz").json()["waiting_spans"]
        cpu_s, mb = _used(process.pid)
    taken = len(answers) * _BATCH / seconds
    cut = quantiles(answers, n=100)
    return (
        f"| {encoding} | {taken:,.0f} | {1e3 * cut[49]:.0f} ms | {1e3 * cut[98]:.0f} ms | {cpu_s / seconds:.2f} "
        f"| {mb:.0f} | {waiting:,} |"
    )


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-m", "hopbudget", "serve", "--port", "0", "--store", str(folder / "traces.duckdb")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().split()[2].rstrip(","), process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _used(pid: int) -> tuple[float, float]:
    """Processor seconds and peak memory in MB, as the kernel counts them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return ticks / 100, int(peak.split()[1]) / 1024


def _bodies(encoding: str) -> Iterator[bytes]:
    for first in itertools.count(1, _BATCH):
        ids = range(first, first + _BATCH)
        yield _protobuf(ids) if encoding == "protobuf" else gzip.compress(_json(ids), 1)


def _protobuf(ids: range) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in ids:
        span = spans.add(
            trace_id=(number // 5 + 1).to_bytes(16),
            span_id=number.to_bytes(8),
            name="chat gpt-4.1",
            kind=3,
            start_time_unix_nano=1_700_000_000_000_000_000 + number,
            end_time_unix_nano=1_700_000_001_000_000_000 + number,
        )
        for key, value in _ATTRIBUTES.items():
            field = {str: "string_value", int: "int_value", float: "double_value"}[type(value)]
            setattr(span.attributes.add(key=key).value, field, value)
    return request.SerializeToString()


def _json(ids: range) -> bytes:
    fields = {str: "stringValue", int: "intValue", float: "doubleValue"}
    attributes = [{"key": key, "value": {fields[type(value)]: value}} for key, value in _ATTRIBUTES.items()]
    spans = [
        {
            "traceId": f"{number // 5 + 1:032x}",
            "spanId": f"{number:016x}",
            "name": "chat gpt-4.1",
            "kind": 3,
            "startTimeUnixNano": str(1_700_000_000_000_000_000 + number),
            "endTimeUnixNano": str(1_700_000_001_000_000_000 + number),
            "attributes": attributes,
        }
        for number in ids
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
