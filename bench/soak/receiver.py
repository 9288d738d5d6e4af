"""The receiver, killed again and again under load, and on a disk that runs full.

Senders send each batch until it is acknowledged, as exporters do. A reader reports in a loop meanwhile. In the end
every acknowledged span is in the store, none twice, and the reader never waited for more than a second.
"""

import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx2

from hopbudget.store import queries
from hopbudget.store.duck import Store

SENDERS = 4
SPANS = 50
READER_WAITS_S = 1.0
FULL_MB = 6


class Server:
    """`hopbudget serve` on a port that stays the same from life to life."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.port = 0
        self.lives = 0
        self.process = self.start()

    def start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "hopbudget", "serve", "--port", str(self.port), "--store", str(self.store)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout
        address = self.process.stdout.readline().split()[2].rstrip(",")
        self.port = int(address.rpartition(":")[2])
        self.lives += 1
        return self.process

    def end(self, how: int) -> None:
        self.process.send_signal(how)
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


class Sender(threading.Thread):
    """Sends new spans, each batch until it is acknowledged or the time is over."""

    def __init__(self, number: int, server: Server, over: threading.Event) -> None:
        super().__init__()
        self.acknowledged: set[str] = set()
        self.statuses: dict[int, int] = {}
        self._ids = itertools.count(number << 40)
        self._server = server
        self._over = over

    def run(self) -> None:
        with httpx2.Client(trust_env=False, timeout=5) as client:
            while not self._over.is_set():
                ids = [f"{next(self._ids) + 1:016x}" for _ in range(SPANS)]
                body = _request(ids)
                while not self._over.is_set() and self._send(client, body) != 200:
                    time.sleep(0.05)
                if self._last == 200:
                    self.acknowledged.update(ids)

    def _send(self, client: httpx2.Client, body: bytes) -> int:
        url = f"http://127.0.0.1:{self._server.port}/v1/traces"
        self._last = 0
        with suppress(httpx2.HTTPError):
            self._last = client.post(url, content=body, headers={"content-type": "application/json"}).status_code
        self.statuses[self._last] = self.statuses.get(self._last, 0) + 1
        return self._last


class Reader(threading.Thread):
    """Somebody who looks again and again."""

    def __init__(self, store: Path, over: threading.Event) -> None:
        super().__init__()
        self.longest_s = 0.0
        self.rounds = 0
        self._store = Store(store)
        self._over = over

    def run(self) -> None:
        assert self._store.path
        while not self._over.is_set():
            if self._store.path.exists():
                asked = time.monotonic()
                with self._store.reading() as con:
                    self.longest_s = max(self.longest_s, time.monotonic() - asked)
                    queries.report(con, queries.Where())
                self.rounds += 1
            time.sleep(0.02)


def run(seconds: float) -> list[str]:
    """Both soaks; returns what did not hold."""
    with tempfile.TemporaryDirectory(prefix="hopbudget-soak-") as folder:
        return _killed(Path(folder) / "traces.duckdb", seconds) + _full(Path(folder) / "small", seconds / 4)


def _killed(store: Path, seconds: float) -> list[str]:
    chance = random.Random(1)
    server, over = Server(store), threading.Event()
    senders = [Sender(number, server, over) for number in range(SENDERS)]
    reader = Reader(store, over)
    for thread in (*senders, reader):
        thread.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(chance.uniform(0.5, 3.0))
        server.end(signal.SIGKILL)
        server.start()
    over.set()
    for thread in (*senders, reader):
        thread.join()
    server.end(signal.SIGTERM)
    acknowledged = set().union(*(sender.acknowledged for sender in senders))
    print(
        f"  killed {server.lives - 1} times; {len(acknowledged):,} spans acknowledged; "
        f"{reader.rounds} reports, longest wait for the store {reader.longest_s:.2f} s"
    )
    broken = _compare(store, acknowledged)
    if reader.longest_s > READER_WAITS_S:
        broken.append(f"a reader waited {reader.longest_s:.2f} s for the store")
    return broken


def _full(folder: Path, seconds: float) -> list[str]:
    """A disk of a few megabytes: refused while it is full, taken again when there is room, nothing damaged."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={FULL_MB}m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        print("  full disk: not run, it takes the right to mount a tmpfs")
        return []
    try:
        return _on_small_disk(folder, seconds)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _on_small_disk(folder: Path, seconds: float) -> list[str]:
    ballast = folder / "ballast"
    ballast.write_bytes(bytes((FULL_MB << 20) * 2 // 3))
    server, over = Server(folder / "traces.duckdb"), threading.Event()
    sender = Sender(9, server, over)
    sender.start()
    until = time.monotonic() + seconds
    while 503 not in sender.statuses and time.monotonic() < until:
        time.sleep(0.05)
    before = len(sender.acknowledged)
    ballast.unlink()
    while len(sender.acknowledged) <= before and time.monotonic() < until:
        time.sleep(0.05)
    over.set()
    sender.join()
    server.end(signal.SIGTERM)
    print(f"  full disk: answers {sender.statuses}; {before:,} spans before there was room again")
    broken = [] if 503 in sender.statuses else ["a full disk was never answered with 503"]
    if len(sender.acknowledged) <= before:
        broken.append("nothing was taken after there was room again")
    for file in folder.glob("*.duckdb"):
        if file.stat().st_size > (FULL_MB << 20):
            broken.append("the store outgrew its disk")
    return broken + _compare(folder / "traces.duckdb", sender.acknowledged)


def _compare(store: Path, acknowledged: set[str]) -> list[str]:
    opened = Store(store)
    opened.drain()
    with opened.reading() as con:
        stored = [row[0] for row in con.execute("SELECT span_id FROM spans").fetchall()]
    broken = []
    if missing := acknowledged - set(stored):
        broken.append(f"{len(missing):,} acknowledged spans are not in the store")
    if len(stored) != len(set(stored)):
        broken.append(f"{len(stored) - len(set(stored)):,} spans are in the store twice")
    return broken


def _request(ids: list[str]) -> bytes:
    spans = [
        {
            "traceId": ids[0].zfill(32),
            "spanId": span_id,
            "name": "chat m",
            "kind": 3,
            "startTimeUnixNano": "1700000000000000000",
            "endTimeUnixNano": "1700000001000000000",
            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
        }
        for span_id in ids
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "soak"}, "spans": spans}]}]}).encode()
