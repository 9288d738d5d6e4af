"""Import of OTLP/JSON files: which files, in what batches, with what account of it."""

import glob
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hopbudget.errors import Exit, UserError
from hopbudget.store.batch import Counts, Part
from hopbudget.store.documents import pieces

if TYPE_CHECKING:
    from hopbudget.store.duck import Progress, Store

_ENDINGS: Final = tuple(ending + zipped for ending in (".json", ".jsonl", ".ndjson") for zipped in ("", ".gz"))
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


def import_paths(store: "Store", paths: Sequence[str | Path], progress: "Progress | None" = None) -> ImportResult:
    """Import files, folders and globs; spans that are stored already are counted as duplicates."""
    files = find_files(paths)
    total = sum(file.stat().st_size for file in files)
    result = ImportResult()
    part = Part()
    before = 0
    for file in files:
        try:

            def on_bytes(read: int, name: str = file.name, before: int = before) -> None:
                if progress:
                    progress(name, before + read, total)

            for line, decoded in pieces(file, on_bytes):
                part.spans += decoded.spans
                part.dropped_content += decoded.dropped_content
                for reason in decoded.rejected:
                    result.reject(f"{file}:{line}", reason)
                if len(part.spans) >= store.batch_spans:
                    result.add(store.write([part]))
                    part = Part()
        except OSError as error:
            result.reject(str(file), f"can't be read: {error.strerror or error}")
        before += file.stat().st_size if file.exists() else 0
    if part.spans or part.dropped_content:
        result.add(store.write([part]))
    result.files = len(files)
    return result


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files that these paths name, each once; UserError if one names none."""
    found: dict[Path, Path] = {}
    for path in paths:
        for file in _files_of(path):
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _files_of(given: str | Path) -> list[Path]:
    path = Path(given).expanduser()
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(_ENDINGS))
        if not files:
            raise UserError(f"No OTLP/JSON file ({', '.join(_ENDINGS[::2])}, each also .gz) in {path}.", Exit.NO)
        return files
    if path.exists():
        return [path]
    if glob.has_magic(str(given)):
        names = glob.glob(str(path), recursive=True)  # noqa: PTH207  (the pattern may hold folders)
        files = sorted(Path(name) for name in names)
        files = [file for file in files if file.is_file()]
        if not files:
            raise UserError(f"No file matches {given}.", Exit.NO)
        return files
    raise UserError(f"There is no file {given}.")
