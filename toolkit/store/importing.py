"""Import of OTLP/JSON files: which files, in what batches, with what account of it."""

import glob
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hopbudget.errors import Exit, UserError
from hopbudget.store.documents import decode_lines, parts
from hopbudget.store.intake import ImportResult, Intake, Rejection, paused_gc
from hopbudget.store.walker import Piece

if TYPE_CHECKING:
    from hopbudget.store.duck import Progress, Store

__all__ = ["ImportResult", "Rejection", "find_files", "import_paths"]

_ENDINGS: Final = tuple(ending + zipped for ending in (".json", ".jsonl", ".ndjson") for zipped in ("", ".gz"))


def import_paths(store: "Store", paths: Sequence[str | Path], progress: "Progress | None" = None) -> ImportResult:
    """Import files, folders and globs; spans that are stored already are counted as duplicates."""
    files = find_files(paths)
    sizes = [file.stat().st_size for file in files]
    intake = Intake(store)
    with paused_gc():
        before = 0
        for file, size in zip(files, sizes, strict=True):
            try:
                for part in parts(file, _reporter(progress, file.name, before, sum(sizes))):
                    if isinstance(part, Piece):
                        intake.take(str(file), [part])
                    else:
                        intake.take(str(file), decode_lines(part))
            except OSError as error:
                intake.result.reject(str(file), f"can't be read: {error.strerror or error}")
            before += size
        intake.flush()
    intake.result.files = len(files)
    return intake.result


def _reporter(progress: "Progress | None", name: str, before: int, total: int) -> Callable[[int], None] | None:
    return (lambda read: progress(name, before + read, total)) if progress else None


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
