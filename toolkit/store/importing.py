"""Import of OTLP/JSON files: which files, decoded where, with what account of it."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hopbudget.errors import Exit, UserError
from hopbudget.store.batch import make_ready
from hopbudget.store.intake import ImportResult, Rejection, batches, paused_gc
from hopbudget.store.workers import Decoded, decoder, decoder_pays

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hopbudget.store.duck import Progress, Store

__all__ = ["ImportResult", "Rejection", "find_files", "import_paths"]

_ENDINGS: Final = tuple(ending + zipped for ending in (".json", ".jsonl", ".ndjson") for zipped in ("", ".gz"))


def import_paths(store: "Store", paths: Sequence[str | Path], progress: "Progress | None" = None) -> ImportResult:
    """Import files, folders and globs; spans that are stored already are counted as duplicates."""
    files = find_files(paths)
    sizes = [file.stat().st_size for file in files]
    result = ImportResult()
    with paused_gc():
        for decoded in _decoded(store, files):
            if decoded.ready.given or decoded.ready.counts.dropped_content:
                result.add(store.put(decoded.ready, []))
            result.reject(decoded.rejected, decoded.rejected_count)
            if progress:
                progress(files[decoded.file].name, sum(sizes[: decoded.file]) + decoded.read, sum(sizes))
    if progress and files:
        progress(files[-1].name, sum(sizes), sum(sizes))
    result.files = len(files)
    return result


def _decoded(store: "Store", files: Sequence[Path]) -> "Iterator[Decoded]":
    """The batches, decoded by a process of its own if that pays."""
    if decoder_pays(files):
        with decoder(files) as running:
            if running:
                yield from running.batches(lambda: store.batch_spans)
                return
    for batch in batches(files, lambda: store.batch_spans):
        yield Decoded(make_ready([batch.part]), batch.rejected, batch.rejected_count, batch.file, batch.read)


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
