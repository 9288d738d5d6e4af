"""What the receiver takes to take in 5,000 spans a second for a minute: memory, processor time, and how it keeps up.

The spans are of agents: a root, and below it calls one after another with a tool between each two; the last call
streams. Each process sends what has ended as OpenTelemetry's batch processor does, so a trajectory of some seconds
comes in pieces, its root last.
"""

import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import httpx2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_RATE = 5_000
_SECONDS = 60
_TARGET_MB = 300
_TARGET_CPU = 0.5
_PROCESSES = 40
_BATCH = 512
_DELAY_S = 5.0
_CALLS = (2, 6)
_CALL_S = (0.6, 3.0)
_TOOL_S = (0.05, 0.6)
_SPANS_EACH = sum(_CALLS)
"""Of a trajectory, in the mean: calls, a tool less, and the root."""
_LONGEST_S = 25.0
_SCOPE = "opentelemetry.instrumentation.openai_v2"


class _Span(NamedTuple):
    name: str
    kind: int
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start_s: float
    end_s: float
    attributes: dict[str, Any]


class _Batch(NamedTuple):
    """What a process sends in one request."""

    at_s: float
    process: int
    spans: Sequence[_Span]


def run() -> str:
    """Measure, and return a Markdown section."""
    rows = [_measure("protobuf"), _measure("json, gzip")]
    lines = [
        "## Receiver",
        "",
        f"`hopbudget serve` under {_RATE:,} spans a second for {_SECONDS} s, of {_PROCESSES} agent processes: "
        f"trajectories of {_CALLS[0]} to {_CALLS[1]} calls of {_CALL_S[0]} to {_CALL_S[1]} s with a tool between each "
        f"two, the last call streamed, sent as batches of at most {_BATCH} spans or after {_DELAY_S:.0f} s "
        "(OpenTelemetry's defaults), so that a trajectory comes in several requests and its root last. Drained into "
        "the store all the while.",
        "",
        "| encoding | spans a second taken | answer, p50 | p99 "
        f"| processor, of one core (at most {_TARGET_CPU}) | peak memory, MB (at most {_TARGET_MB}) "
        "| still to drain at the end |",
        "|---|---|---|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def _measure(encoding: str) -> str:
    with tempfile.TemporaryDirectory(prefix="hopbudget-bench-") as folder, _served(Path(folder)) as (url, process):
        headers = {"content-type": "application/x-protobuf" if encoding == "protobuf" else "application/json"}
        if "gzip" in encoding:
            headers["content-encoding"] = "gzip"
        answers = []
        taken = 0
        batches = _batches(random.Random(1))
        with httpx2.Client(trust_env=False, timeout=60) as client:
            begun, begun_ns = time.perf_counter(), time.time_ns()
            for batch in batches:
                body = (
                    _protobuf(batch, begun_ns) if encoding == "protobuf" else gzip.compress(_json(batch, begun_ns), 1)
                )
                time.sleep(max(0.0, begun + batch.at_s - time.perf_counter()))
                asked = time.perf_counter()
                client.post(f"{url}/v1/traces", content=body, headers=headers).raise_for_status()
                answers.append(time.perf_counter() - asked)
                taken += len(batch.spans)
            seconds = time.perf_counter() - begun
            waiting = client.get(f"{url}/healthz").json()["waiting_spans"]
        cpu_s, mb = _used(process.pid)
    cut = quantiles(answers, n=100)
    return (
        f"| {encoding} | {taken / seconds:,.0f} | {1e3 * cut[49]:.0f} ms | {1e3 * cut[98]:.0f} ms "
        f"| {cpu_s / seconds:.2f} | {mb:.0f} | {waiting:,} |"
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


# --- the load ----------------------------------------------------------------------------------------------------


def _batches(chance: random.Random) -> list[_Batch]:
    """All requests of the measured time, in order. What began before it and ends in it is sent as well."""
    found: list[_Batch] = []
    for process in range(_PROCESSES):
        ended = [span for span in _spans(chance) if 0 <= span.end_s < _SECONDS]
        ended.sort(key=lambda span: span.end_s)
        found += _batches_of(process, ended, chance.uniform(0, _DELAY_S))
    return sorted(found, key=lambda batch: batch.at_s)


def _batches_of(process: int, ended: Sequence[_Span], due_s: float) -> Iterator[_Batch]:
    """As the batch processor has it: when there are enough, and else when its time is over."""
    waiting: list[_Span] = []
    for span in ended:
        while span.end_s >= due_s:
            if waiting:
                yield _Batch(due_s, process, waiting)
            waiting, due_s = [], due_s + _DELAY_S
        waiting.append(span)
        if len(waiting) == _BATCH:
            yield _Batch(span.end_s, process, waiting)
            waiting, due_s = [], span.end_s + _DELAY_S


def _spans(chance: random.Random) -> Iterator[_Span]:
    """Of one process, which begins trajectories at random."""
    at_s = -_LONGEST_S
    while at_s < _SECONDS:
        yield from _trajectory(chance, at_s)
        at_s += chance.expovariate(_RATE / _PROCESSES / _SPANS_EACH)


def _trajectory(chance: random.Random, start_s: float) -> Iterator[_Span]:
    trace_id, root_id, session = chance.randbytes(16), chance.randbytes(8), chance.randbytes(8).hex()
    calls = chance.randint(*_CALLS)
    at_s = start_s
    for number in range(2 * calls - 1):
        begun_s = at_s + chance.uniform(0.001, 0.01)
        if number % 2:
            name, kind, (attributes, at_s) = "execute_tool search", 1, _tool(chance, begun_s)
        else:
            name, kind, (attributes, at_s) = "chat gpt-4.1", 3, _call(chance, begun_s, last=number == 2 * calls - 2)
        attributes["gen_ai.conversation.id"] = session
        yield _Span(name, kind, trace_id, chance.randbytes(8), root_id, begun_s, at_s, attributes)
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "researcher",
        "gen_ai.conversation.id": session,
    }
    yield _Span("invoke_agent researcher", 1, trace_id, root_id, b"", start_s, at_s + 0.005, attributes)


def _tool(chance: random.Random, start_s: float) -> tuple[dict[str, Any], float]:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": f"call_{chance.randbytes(12).hex()}",
    }
    return attributes, start_s + chance.uniform(*_TOOL_S)


def _call(chance: random.Random, start_s: float, *, last: bool) -> tuple[dict[str, Any], float]:
    length_s = chance.uniform(*_CALL_S)
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1",
        "gen_ai.response.model": "gpt-4.1-2025-04-14",
        "gen_ai.response.id": f"chatcmpl-{chance.randbytes(14).hex()}",
        "gen_ai.response.finish_reasons": ["stop" if last else "tool_calls"],
        "gen_ai.usage.input_tokens": chance.randint(400, 9_000),
        "gen_ai.usage.output_tokens": chance.randint(20, 600),
        "server.address": "api.openai.com",
        "server.port": 443,
    }
    if last:
        attributes["gen_ai.response.time_to_first_chunk"] = length_s * chance.uniform(0.2, 0.6)
    return attributes, start_s + length_s


def _resource(process: int) -> dict[str, Any]:
    return {
        "service.name": f"agent-{process % 4}",
        "service.version": "1.4.0",
        "service.instance.id": f"{process:08x}",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": "1.39.0",
    }


def _protobuf(batch: _Batch, begun_ns: int) -> bytes:
    request = ExportTraceServiceRequest()
    of_process = request.resource_spans.add()
    _fill(of_process.resource.attributes, _resource(batch.process))
    of_scope = of_process.scope_spans.add()
    of_scope.scope.name = _SCOPE
    for one in batch.spans:
        span = of_scope.spans.add(
            trace_id=one.trace_id,
            span_id=one.span_id,
            parent_span_id=one.parent_id,
            name=one.name,
            kind=one.kind,
            start_time_unix_nano=begun_ns + round(one.start_s * 1e9),
            end_time_unix_nano=begun_ns + round(one.end_s * 1e9),
        )
        _fill(span.attributes, one.attributes)
    return request.SerializeToString()


def _fill(pairs: Any, attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        into = pairs.add(key=key).value
        if isinstance(value, list):
            for item in value:
                into.array_value.values.add(string_value=item)
        else:
            setattr(into, {str: "string_value", int: "int_value", float: "double_value"}[type(value)], value)


def _json(batch: _Batch, begun_ns: int) -> bytes:
    spans = [
        {
            "traceId": one.trace_id.hex(),
            "spanId": one.span_id.hex(),
            "parentSpanId": one.parent_id.hex(),
            "name": one.name,
            "kind": one.kind,
            "startTimeUnixNano": str(begun_ns + round(one.start_s * 1e9)),
            "endTimeUnixNano": str(begun_ns + round(one.end_s * 1e9)),
            "attributes": _pairs(one.attributes),
            "status": {},
        }
        for one in batch.spans
    ]
    resource = {"attributes": _pairs(_resource(batch.process))}
    scopes = [{"scope": {"name": _SCOPE}, "spans": spans}]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}).encode()


def _pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue" if isinstance(value, float) else "stringValue": value}
