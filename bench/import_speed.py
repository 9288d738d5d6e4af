"""How fast files are imported, against DuckDB's own JSON reader, and how much memory that takes.

The recorded file is repeated with new ids up to 300 MB of JSON, and the same spans are written in protobuf. Each side
starts from nothing in a process of its own, in turns; memory is the sum of the peaks of all processes as the kernel
counts them.
"""

import base64
import gzip
import os
import re
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

_ROOT: Final = Path(__file__).resolve().parent.parent
_RECORDED: Final = _ROOT.parent / "shared" / "data" / "tau2-retail-gpt41.otlp.jsonl.gz"
_BYTES: Final = 300_000_000
_ROUNDS: Final = 3
_IDS: Final = re.compile(rb'("(?:traceId|spanId|parentSpanId)":")([0-9a-f]+)(?=")')
_TARGET_RATIO: Final = 0.6
_TARGET_MB: Final = 300
_OURS: Final = {"JSON": "spans.jsonl", "protobuf": "spans.binpb"}
_SQL: Final = {"plain": "read_json.sql", "flat": "read_json_flat.sql"}


class Run(NamedTuple):
    """What one run took."""

    seconds: float
    own_s: float
    """Processor time of the process that stores and decodes a part; where one process does all, of that one."""
    child_s: float
    """Processor time of the process that decodes."""
    mb: float

    @property
    def cpu_s(self) -> float:
        """Processor time of all processes."""
        return self.own_s + self.child_s


def run() -> str:
    """Measure, and return a Markdown section."""
    if not _RECORDED.is_file():
        return f"## Import speed\n\nNot measured: {_RECORDED.name} is not here.\n"
    with tempfile.TemporaryDirectory(prefix="hopbudget-bench-") as name:
        folder = Path(name)
        spans = _repeat(folder)
        sides = [*_OURS, *_SQL]
        runs: dict[str, list[Run]] = {side: [] for side in sides}
        for _ in range(_ROUNDS):
            for side in sides:
                runs[side].append(_measure(side, folder))
        sizes = {encoding: (folder / file).stat().st_size / 1e6 for encoding, file in _OURS.items()}
    lines = [
        "## Import speed",
        "",
        f"{spans:,} spans, {sizes['JSON']:.0f} MB as OTLP/JSON and {sizes['protobuf']:.0f} MB as OTLP in protobuf, "
        f"{os.cpu_count()} cores, {_ROUNDS} rounds each in turns. Ours fills `spans`, `hops`, `trajectories` and "
        "`works` and drops duplicates, in two processes: one decodes, the other stores, and decodes a part where it "
        "would wait. Each baseline is one statement "
        "into one table without a key, of the same spans as OTLP/JSON: `bench/read_json.sql` keeps attributes as the "
        "JSON list that was read; `bench/read_json_flat.sql` makes of them the flat object, a value by name, that "
        "`spans.attributes` of a store holds, and is otherwise the same.",
        "",
        "| | spans a second (median) | of all rounds | CPU, us a span | of which the decoder | the parent "
        "| peak memory, MB |",
        "|---|---|---|---|---|---|---|",
        *(_row(f"`hopbudget import`, {side}", runs[side], spans, split=True) for side in _OURS),
        *(_row(f"DuckDB `read_json`, {side}", runs[side], spans, split=False) for side in _SQL),
        "",
        *(_verdict(side, runs) for side in _OURS),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, runs: list[Run], spans: int, *, split: bool) -> str:
    speeds = [spans / run.seconds for run in runs]
    each = ", ".join(f"{speed:,.0f}" for speed in speeds)
    cpu_us = median(run.cpu_s for run in runs) / spans * 1e6
    parts = "- | -"
    if split:
        decoder_s, parent_s = median(run.child_s for run in runs), median(run.own_s for run in runs)
        parts = f"{decoder_s / spans * 1e6:.1f} | {parent_s / spans * 1e6:.1f}"
    memory = max(run.mb for run in runs)
    return f"| {name} | {median(speeds):,.0f} | {each} | {cpu_us:.1f} | {parts} | {memory:.0f} |"


def _verdict(side: str, runs: dict[str, list[Run]]) -> str:
    seconds = {name: median(run.seconds for run in some) for name, some in runs.items()}
    cpu_s = {name: median(run.cpu_s for run in some) for name, some in runs.items()}
    plain, flat = (f"{seconds[sql] / seconds[side]:.2f} (by CPU time {cpu_s[sql] / cpu_s[side]:.2f})" for sql in _SQL)
    mb = max(run.mb for run in runs[side])
    kept = seconds["plain"] / seconds[side] >= _TARGET_RATIO and mb < _TARGET_MB
    return (
        f"- {side}: {plain} of the plain statement, {_TARGET_RATIO} wanted; {flat} of the flat one, for comparison; "
        f"memory {mb:.0f} MB, under {_TARGET_MB} wanted, all processes' peaks added. "
        f"{'Held.' if kept else '**Missed.**'}"
    )


def _repeat(folder: Path) -> int:
    """The recorded spans again and again under new ids, in both encodings; returns how many there are."""
    recorded = gzip.decompress(_RECORDED.read_bytes())
    messages = [_message(line) for line in recorded.splitlines()]
    spans = 0
    with (folder / _OURS["JSON"]).open("wb") as as_json, (folder / _OURS["protobuf"]).open("wb") as as_protobuf:
        while as_json.tell() < _BYTES:
            masks = {32: secrets.randbits(128), 16: secrets.randbits(64)}

            def renamed(match: re.Match[bytes], masks: dict[int, int] = masks) -> bytes:
                digits = len(match[2])
                return match[1] + b"%0*x" % (digits, int(match[2], 16) ^ masks[digits])

            as_json.write(_IDS.sub(renamed, recorded))
            for message in messages:
                body = _renamed(message, masks)
                as_protobuf.write(len(body).to_bytes(4, "big") + body)  # as the Collector's file exporter does
            spans += recorded.count(b'"spanId"')
    return spans


def _message(line: bytes) -> Any:
    """The same request in protobuf: JSON's hex ids are what the official JSON reader takes for base64."""
    from google.protobuf import json_format  # type: ignore[import-untyped]
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    text = _IDS.sub(lambda match: match[1] + base64.b64encode(bytes.fromhex(match[2].decode())), line)
    return json_format.Parse(text, ExportTraceServiceRequest())


def _renamed(message: Any, masks: dict[int, int]) -> bytes:
    message = type(message).FromString(message.SerializeToString())
    for resource_spans in message.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                for field, size in (("trace_id", 16), ("span_id", 8), ("parent_span_id", 8)):
                    if value := getattr(span, field):
                        setattr(span, field, (int.from_bytes(value) ^ masks[2 * size]).to_bytes(size))
    return bytes(message.SerializeToString())


def _measure(side: str, folder: Path) -> Run:
    """One run in a process of its own."""
    store = folder / f"{secrets.token_hex(4)}.duckdb"
    command = [sys.executable, "-m", "bench.import_speed", side, str(folder), str(store)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    for left in folder.glob(store.name + "*"):
        left.unlink()
    return Run(*map(float, done.stdout.split()))


def _one_run(side: str, folder: Path, store: Path) -> None:
    if side in _OURS:
        from hopbudget.store.duck import Store

        started, before = time.perf_counter(), os.times()
        Store(store).import_paths([folder / _OURS[side]])
    else:
        import duckdb

        statement = (_ROOT / "bench" / _SQL[side]).read_text()
        started, before = time.perf_counter(), os.times()
        with duckdb.connect(store) as con:
            con.execute(statement.replace("{file}", str(folder / _OURS["JSON"])))
    seconds = time.perf_counter() - started
    after = os.times()
    own_s = after.user + after.system - before.user - before.system
    child_s = after.children_user + after.children_system - before.children_user - before.children_system
    peak_kb = _own_peak_kb() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # ours has one child
    print(seconds, own_s, child_s, peak_kb / 1024)


def _own_peak_kb() -> int:
    """Of this process alone: what `getrusage` says begins with what the process that started it had."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    assert found
    return int(found[1])


if __name__ == "__main__":
    _one_run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
