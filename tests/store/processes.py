"""Processes for the tests of the spool: run as a script with the name of a part and its arguments."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from hopbudget.store import duck, queries
from hopbudget.store.duck import Store
from hopbudget.store.spool import Spool


def say(words: str) -> None:
    """Tell the test, at once."""
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def write(folder: str, lines: str) -> None:
    """An agent: append each line, and only then acknowledge it."""
    out = Spool(Path(folder))
    for line in Path(lines).read_bytes().splitlines():
        out.append([line], 4)
        say("flushed")


def report(store: str, until: str) -> None:
    """A person who looks again and again, until the file `until` is there."""
    mine = Store(Path(store))
    rounds = 0
    while not Path(until).exists() or rounds == 0:
        mine.drain()
        if Path(store).exists():
            with mine.reading() as con:
                queries.report(con, queries.Where())
        rounds += 1
    say(f"rounds {rounds}")


def hold(store: str) -> None:
    """A program that keeps the store open until its input ends."""
    import duckdb

    with duckdb.connect(store):
        say("open")
        sys.stdin.read()


def fork(store: str) -> None:
    """A program that reads the store, and whose fork reads it and ends as programs do."""
    mine = Store(Path(store))

    def read() -> None:
        with mine.reading() as con:
            say(f"trajectories {con.execute('SELECT count(*) FROM trajectories').fetchall()[0][0]}")

    read()
    child = os.fork()
    if child:
        say(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
    else:
        read()


def die(store: str, where: str) -> None:
    """A drainer that is killed at a known place."""

    def kill(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    remove = duck._remove_files

    def remove_one_and_die(parts: list[Any]) -> None:
        remove(parts[:1])
        kill()

    if where == "before the commit":
        duck._book = kill
    else:
        duck._remove_files = kill if where == "after the commit" else remove_one_and_die
    Store(Path(store)).drain()


if __name__ == "__main__":
    {"write": write, "report": report, "hold": hold, "fork": fork, "die": die}[sys.argv[1]](*sys.argv[2:])
