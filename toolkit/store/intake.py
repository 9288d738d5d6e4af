"""Files to batches: the way of an import up to the store, and its account of it."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from hopbudget.store import parquet
from hopbudget.store.batch import Counts, Part
from hopbudget.store.documents import Undecoded, decoded, parts
from hopbudget.store.parquet import Columns, is_parquet
from hopbudget.store.spans import Span, joined
from hopbudget.store.walker import Piece, rejection

_REJECTIONS_KEPT: Final = 1000
_NO_COLUMNS: Final[Columns] = MappingProxyType({})


class Rejection(NamedTuple):
    """Something that could not be imported."""

    where: str
    """File and line."""
    reason: str


@dataclass(slots=True)
class ImportResult(Counts):
    """What an import added, and what it could not take."""

    rejected: list[Rejection] = field(default_factory=list)
    """The first thousand."""
    rejected_count: int = 0

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        whole = asdict(self)
        return whole | {"rejected": [rejection._asdict() for rejection in self.rejected]}

    def reject(self, rejected: Sequence[Rejection], count: int) -> None:
        """Count them, and keep them if there are not too many."""
        self.rejected_count += count
        self.rejected += rejected[: _REJECTIONS_KEPT - len(self.rejected)]


class Batch(NamedTuple):
    """What is stored at once."""

    part: Part
    rejected: list[Rejection]
    """The first thousand of them."""
    rejected_count: int
    file: int
    """The number of the file that was read last."""
    read: int
    """How many of its bytes on disk have been read."""


class Left(msgspec.Struct, gc=False, tag=True):
    """A part that is left to somebody else to decode."""

    file: int
    read: int
    part: Undecoded


def batches(
    files: Sequence[Path],
    most: Callable[[], int],
    columns: Columns = _NO_COLUMNS,
    leave: Callable[[Left], bool] = lambda _: False,
) -> Iterator[Batch]:
    """The spans of these files in order, as many at once as `most` says when a batch is begun, but for a last piece.

    `leave` is asked of each part whether it is decoded elsewhere.
    """
    filling = Filling(most())
    for number, file in enumerate(files):
        read = 0
        for part, read in _parts(file, columns):
            if not isinstance(part, Piece) and leave(Left(number, read, part)):
                continue
            for piece in decoded(part):
                filling.add(file, piece)
                if filling.full:
                    yield filling.batch(number, read)
                    filling = Filling(most())
        if number + 1 == len(files) and not filling.empty:
            yield filling.batch(number, read)


class Filling:
    """A batch that is being filled."""

    def __init__(self, most: int) -> None:
        self.count = 0
        """How many spans it holds."""
        self._most = most
        self._last = 0
        self._spans: list[Sequence[Span]] = []
        self._dropped_content = 0
        self._rejected: list[Rejection] = []
        self._rejected_count = 0

    @property
    def full(self) -> bool:
        """Whether another piece like the last one would be too much."""
        return self.count + self._last > self._most

    @property
    def empty(self) -> bool:
        """Whether there is nothing to store or to tell."""
        return not (self.count or self._dropped_content or self._rejected)

    def add(self, file: Path, piece: Piece) -> None:
        """Take in what is decoded."""
        spans, rejected, dropped_content = piece.decoded
        self._spans.append(spans)
        self._last = len(spans)
        self.count += self._last
        self._dropped_content += dropped_content
        if rejected:
            self._rejected_count += len(rejected)
            if len(self._rejected) < _REJECTIONS_KEPT:
                where = f"{file}:{piece.line}" if piece.line else str(file)
                self._rejected += [Rejection(where, reason) for reason in rejected]

    def batch(self, file: int, read: int) -> Batch:
        """The batch, when so much of this file has been read."""
        part = Part(joined(self._spans), dropped_content=self._dropped_content)
        return Batch(part, self._rejected[:_REJECTIONS_KEPT], self._rejected_count, file, read)


def _parts(file: Path, columns: Columns) -> Iterator[tuple[Undecoded | Piece, int]]:
    """The parts of a file, and how much of it has been read."""
    read = 0

    def note(at: int) -> None:
        nonlocal read
        read = at

    try:
        if is_parquet(file):
            yield from ((piece, file.stat().st_size) for piece in parquet.pieces(file, columns))
            return
        for part in parts(file, note):
            yield part, read
    except OSError as error:
        yield rejection(0, f"can't be read: {error.strerror or error}"), read


@contextmanager
def paused_gc() -> Iterator[None]:
    """Decoding makes very many objects and no cycles among them; looking for some costs a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
