"""The `import` command: progress while it reads, and what came of it."""

from collections.abc import Sequence
from pathlib import Path

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from hopbudget.errors import Exit
from hopbudget.render import base
from hopbudget.store.duck import Store
from hopbudget.store.importing import ImportResult
from hopbudget.units import count

_SHOWN_REJECTS = 10


def import_files(paths: Sequence[str], store: Path, *, as_json: bool) -> int:
    """Import the files and print what came of it; returns the exit code."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=base.console(stderr=True),
        transient=True,
        disable=as_json,
    ) as bar:
        task = bar.add_task("reading", total=None)

        def advance(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        result = Store(store).import_paths(paths, progress=advance)
    if as_json:
        base.print_json(result.as_json())
    else:
        _say(result, store)
    return Exit.DONE if result.spans or result.duplicates else Exit.NO


def _say(result: ImportResult, store: Path) -> None:
    out = base.console()
    out.print(
        f"{store}: added {count(result.trajectories)} trajectories, {count(result.hops)} hops and "
        f"{count(result.works)} works from {count(result.spans)} spans in {count(result.files)} files."
    )
    if result.duplicates:
        out.print(f"{count(result.duplicates)} spans were there already and were not added again.")
    if result.dropped_content:
        out.print(
            f"{count(result.dropped_content)} content attributes (messages, prompts, tool arguments) were dropped."
        )
    for reject in result.rejected[:_SHOWN_REJECTS]:
        out.print(Text(f"rejected  {reject.where}: {reject.reason}", style=base.OVER))
    if len(result.rejected) > _SHOWN_REJECTS:
        out.print(f"... and {count(len(result.rejected) - _SHOWN_REJECTS)} more; --json lists them all.")
    if not result.spans and not result.duplicates:
        out.print("Nothing was imported.")
    elif result.spans:
        out.print(Text(f"Next: hopbudget report {store}", style=base.QUIET))
