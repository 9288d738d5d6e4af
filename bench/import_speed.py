"""How fast files are imported, against DuckDB's own JSON reader, and how much memory that takes.

The recorded file is repeated with new ids up to 300 MB. Both sides start from nothing in a process of their own, in
turns; memory is the sum of the peaks of all processes as the kernel counts them.
"""

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
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).resolve().parent.parent
_RECORDED: Final = _ROOT.parent / "shared" / "data" / "tau2-retail-gpt41.otlp.jsonl.gz"
_SQL: Final = _ROOT / "bench" / "read_json.sql"
_BYTES: Final = 300_000_000
_ROUNDS: Final = 3
_IDS: Final = re.compile(rb'("(?:traceId|spanId|parentSpanId)":")([0-9a-f]+)(?=")')
_TARGET_RATIO: Final = 0.6
_TARGET_MB: Final = 300


class Run(NamedTuple):
    """What one run took, its child processes included."""

    seconds: float
    cpu_s: float
    mb: float


def run() -> str:
    """Measure, and return a Markdown section."""
    if not _RECORDED.is_file():
        return f"## Import speed\n\nNot measured: {_RECORDED.name} is not here.\n"
    with tempfile.TemporaryDirectory(prefix="hopbudget-bench-") as folder:
        file = Path(folder) / "spans.jsonl"
        spans = _repeat(file)
        rounds = [(_measure("ours", file), _measure("sql", file)) for _ in range(_ROUNDS)]
        size = file.stat().st_size
    ours = [one for one, _ in rounds]
    sql = [other for _, other in rounds]
    ratio = median(run.seconds for run in sql) / median(run.seconds for run in ours)
    cpu_ratio = median(run.cpu_s for run in sql) / median(run.cpu_s for run in ours)
    lines = [
        "## Import speed",
        "",
        f"{spans:,} spans in {size / 1e6:.0f} MB of OTLP/JSON, {os.cpu_count()} cores, {_ROUNDS} rounds each in turns. "
        "Ours fills `spans`, `hops`, `trajectories` and `works` and drops duplicates; the baseline is one statement "
        "(`bench/read_json.sql`) into one table without a key.",
        "",
        "| | spans a second (median) | of all rounds | CPU, us a span | peak memory, MB |",
        "|---|---|---|---|---|",
        _row("`hopbudget import`", ours, spans),
        _row("DuckDB `read_json`", sql, spans),
        "",
        f"Ratio {ratio:.2f} (wanted: {_TARGET_RATIO}), by CPU time {cpu_ratio:.2f}; "
        f"memory {max(run.mb for run in ours):.0f} MB (wanted: under {_TARGET_MB}), all processes' peaks added.",
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, runs: list[Run], spans: int) -> str:
    speeds = [spans / run.seconds for run in runs]
    each = ", ".join(f"{speed:,.0f}" for speed in speeds)
    cpu_us = median(run.cpu_s for run in runs) / spans * 1e6
    return f"| {name} | {median(speeds):,.0f} | {each} | {cpu_us:.1f} | {max(run.mb for run in runs):.0f} |"


def _repeat(target: Path) -> int:
    """The recorded file again and again under new ids; returns the number of spans."""
    recorded = gzip.decompress(_RECORDED.read_bytes())
    spans = 0
    with target.open("wb") as file:
        while file.tell() < _BYTES:
            masks = {32: secrets.randbits(128), 16: secrets.randbits(64)}

            def renamed(match: re.Match[bytes], masks: dict[int, int] = masks) -> bytes:
                digits = len(match[2])
                return match[1] + b"%0*x" % (digits, int(match[2], 16) ^ masks[digits])

            file.write(_IDS.sub(renamed, recorded))
            spans += recorded.count(b'"spanId"')
    return spans


def _measure(side: str, file: Path) -> Run:
    """One run in a process of its own."""
    store = file.with_name(f"{side}-{secrets.token_hex(4)}.duckdb")
    command = [sys.executable, "-m", "bench.import_speed", side, str(file), str(store)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    for left in store.parent.glob(store.name + "*"):
        left.unlink()
    return Run(*map(float, done.stdout.split()))


def _one_run(side: str, file: Path, store: Path) -> None:
    if side == "ours":
        from hopbudget.store.duck import Store

        started, cpu_before = time.perf_counter(), sum(os.times()[:4])
        Store(store).import_paths([file])
    else:
        import duckdb

        started, cpu_before = time.perf_counter(), sum(os.times()[:4])
        with duckdb.connect(store) as con:
            con.execute(_SQL.read_text().replace("{file}", str(file)))
    seconds = time.perf_counter() - started
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(seconds, sum(os.times()[:4]) - cpu_before, sum(peaks) / 1024)  # ours has one child


if __name__ == "__main__":
    _one_run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
