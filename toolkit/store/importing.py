"""Import of files of spans: which files, decoded where, with what account of it."""

import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hopbudget.errors import Exit, UserError
from hopbudget.store.batch import Counts
from hopbudget.store.framing import is_named_binary
from hopbudget.store.intake import ImportResult, Rejection, batches, paused_gc
from hopbudget.store.parquet import Columns, is_parquet
from hopbudget.store.workers import Decoded, decoder, decoder_pays, make_decoded
from hopbudget.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hopbudget.store.duck import Progress, Store

__all__ = ["ImportResult", "Rejection", "find_files", "import_paths"]

_ENDINGS: Final = tuple(
    ending + zipped for ending in (".json", ".jsonl", ".ndjson", ".pb", ".binpb") for zipped in ("", ".gz")
)


Note = Callable[[Path, Sequence[str]], None]
"""Told of each batch: the file that it is from, and the ids of the traces in it."""


def import_paths(
    store: "Store",
    paths: Sequence[str | Path],
    progress: "Progress | None" = None,
    note: Note | None = None,
    columns: Columns | None = None,
) -> ImportResult:
    """Import files, folders and globs; spans that are stored already are counted as duplicates.

    With `note`, a batch holds spans of one file only. `columns` says what the columns of Parquet files are.
    """
    files = find_files(paths)
    sizes = [file.stat().st_size for file in files]
    result = ImportResult()
    with paused_gc():
        for number, decoded in _by_file(store, files, columns) if note else _together(store, files, columns):
            if any(ready.given or ready.counts.dropped_content for ready in decoded.ready):
                result.add(_put(store, decoded, result))
            result.reject(decoded.rejected, decoded.rejected_count)
            if note:
                note(files[number], [trace_id for ready in decoded.ready for trace_id in ready.trace_ids])
            if progress:
                progress(files[number].name, sum(sizes[:number]) + decoded.read, sum(sizes))
    if progress and files:
        progress(files[-1].name, sum(sizes), sum(sizes))
    result.files = len(files)
    return result


def _put(store: "Store", decoded: Decoded, so_far: ImportResult) -> Counts:
    try:
        return store.put(*decoded.ready)
    except UserError as error:
        if not so_far.spans:
            raise
        stored = plural(so_far.trajectories, "trajectory", "trajectories")
        raise UserError(
            f"{error.message} Before that {stored} went in; import again to add the rest.", error.exit_code
        ) from error


def _together(store: "Store", files: Sequence[Path], columns: Columns | None) -> "Iterator[tuple[int, Decoded]]":
    return ((decoded.file, decoded) for decoded in _decoded(store, files, columns))


def _by_file(store: "Store", files: Sequence[Path], columns: Columns | None) -> "Iterator[tuple[int, Decoded]]":
    return ((number, decoded) for number, file in enumerate(files) for decoded in _decoded(store, [file], columns))


def _decoded(store: "Store", files: Sequence[Path], columns: Columns | None) -> "Iterator[Decoded]":
    """The batches, decoded by a process of its own if that pays."""
    if any(is_named_binary(file.name) for file in files):
        from hopbudget.store import protobuf  # noqa: F401  (where it is missing, it is said here and by name)
    if not any(map(is_parquet, files)) and decoder_pays(files):
        with decoder(files) as running:
            if running:
                yield from running.batches(lambda: store.batch_spans)
                return
    for batch in batches(files, lambda: store.batch_spans, columns or {}):
        yield make_decoded(batch)


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
        found = (Path(folder, name) for folder, _, names in os.walk(path) for name in names if name.endswith(_ENDINGS))
        files = sorted(file for file in found if file.is_file())
        if not files:
            raise UserError(
                f"No OTLP/JSON file, or other file of spans ({', '.join(_ENDINGS[::2])}, each also .gz) in {path}.",
                Exit.NO,
            )
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
