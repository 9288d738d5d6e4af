"""What an import takes in, and its account of it."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hopbudget.store.batch import Counts, Part
from hopbudget.store.walker import Piece

if TYPE_CHECKING:
    from hopbudget.store.duck import Store

_REJECTIONS_KEPT: Final = 1000


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

    def reject(self, where: str, reason: str) -> None:
        """Count it, and keep it if there are not too many."""
        self.rejected_count += 1
        if len(self.rejected) < _REJECTIONS_KEPT:
            self.rejected.append(Rejection(where, reason))


class Intake:
    """Takes decoded pieces and stores them in transactions of the size that the store asks for."""

    def __init__(self, store: "Store") -> None:
        self.result: Final = ImportResult()
        self._store = store
        self._part = Part()

    def take(self, name: str, found: Iterable[Piece]) -> None:
        """Add the pieces of a file of this name."""
        for line, decoded in found:
            self._part.spans += decoded.spans
            self._part.dropped_content += decoded.dropped_content
            for reason in decoded.rejected:
                self.result.reject(f"{name}:{line}", reason)
            if len(self._part.spans) >= self._store.batch_spans:
                self.flush()

    def flush(self) -> None:
        """Store what waits."""
        part, self._part = self._part, Part()
        if part.spans or part.dropped_content:
            self.result.add(self._store.write([part]))


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
