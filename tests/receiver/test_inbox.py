"""Requests that come together go into one file, and each learns what became of it."""

import asyncio
from collections.abc import Sequence

import pytest

from hopbudget.receiver.inbox import Inbox


async def test_what_comes_while_a_file_is_written_shares_the_next_one() -> None:
    files: list[tuple[list[bytes], int]] = []
    inbox = Inbox(lambda lines, spans: files.append((list(lines), spans)))
    await asyncio.gather(*(inbox.put([b"%d" % number], 2) for number in range(10)))
    assert sorted(line for lines, _ in files for line in lines) == sorted(b"%d" % number for number in range(10))
    assert sum(spans for _, spans in files) == 20
    assert len(files) < 10


async def test_a_failure_reaches_everybody_in_the_file_and_nobody_after() -> None:
    works = False

    def append(_lines: Sequence[bytes], _spans: int) -> None:
        if not works:
            raise OSError("full")

    inbox = Inbox(append)
    failed = await asyncio.gather(inbox.put([b"a"], 1), inbox.put([b"b"], 1), return_exceptions=True)
    assert [type(error) for error in failed] == [OSError, OSError]
    works = True
    await inbox.put([b"c"], 1)


async def test_a_sender_that_goes_away_keeps_nothing_from_being_written() -> None:
    lines: list[bytes] = []
    inbox = Inbox(lambda found, _spans: lines.extend(found))
    first = asyncio.ensure_future(inbox.put([b"a"], 1))
    await asyncio.sleep(0)
    first.cancel()
    await inbox.put([b"b"], 1)
    with pytest.raises(asyncio.CancelledError):
        await first
    assert lines == [b"a", b"b"]
