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
from hopbudget.render import sources as draw
from hopbudget.store.duck import Store
from hopbudget.store.importing import ImportResult
from hopbudget.store.parquet import read_columns
from hopbudget.units import count, plural

_SHOWN_REJECTS = 10


def import_files(
    paths: Sequence[str],
    store: Path,
    *,
    as_json: bool,
    explain: bool = False,
    columns: str | None = None,
    pairs: Sequence[str] = (),
) -> int:
    """Import the files and print what came of it; returns the exit code.

    `columns` is a TOML file, and `pairs` are NAME=COLUMN: what the columns of Parquet files are. With `explain`, also
    what each source told and what is missing, of the traces in these files as they are stored now.
    """
    traces: dict[Path, dict[str, None]] = {}

    def note(file: Path, trace_ids: Sequence[str]) -> None:
        traces.setdefault(file, {}).update(dict.fromkeys(trace_ids))

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=base.console(stderr=True, moving=True),
        transient=True,
        disable=as_json,
    ) as bar:
        task = bar.add_task("reading", total=None)

        def advance(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        opened = Store(store)
        result = opened.import_paths(paths, advance, note if explain else None, read_columns(columns, pairs))
    if not explain:
        if as_json:
            base.print_json(result.as_json())
        else:
            _say(result, store)
    else:
        account = opened.account(list({trace: None for found in traces.values() for trace in found}))
        files, shared = account.by_file({str(file): found for file, found in traces.items()})
        if as_json:
            listed = [{"file": name, **of.held._asdict(), "shared_traces": of.shared} for name, of in files.items()]
            told = account.as_json() | {"files": listed, "in_several_files": shared._asdict()}
            base.print_json(result.as_json() | {"explain": told})
        else:
            _say(result, store)
            draw.explain(base.console(), account, files, shared)
    return Exit.DONE if result.spans or result.duplicates else Exit.NO


def _say(result: ImportResult, store: Path) -> None:
    out = base.console()
    out.print(
        f"{store}: added {plural(result.trajectories, 'trajectory', 'trajectories')}, "
        f"{plural(result.hops, 'hop', 'hops')} and {plural(result.works, 'work', 'works')} from "
        f"{plural(result.spans, 'span', 'spans')} in {plural(result.files, 'file', 'files')}."
    )
    if result.duplicates:
        out.print(f"{plural(result.duplicates, 'span was', 'spans were')} there already and not added again.")
    if result.dropped_content:
        out.print(
            f"{plural(result.dropped_content, 'content attribute', 'content attributes')} (messages, prompts, tool "
            "arguments) dropped."
        )
    for reject in result.rejected[:_SHOWN_REJECTS]:
        out.print(Text(f"rejected  {reject.where}: {reject.reason}", style=base.OVER))
    if len(result.rejected) > _SHOWN_REJECTS:
        out.print(f"... and {count(len(result.rejected) - _SHOWN_REJECTS)} more; --json lists them all.")
    if not result.spans and not result.duplicates:
        out.print("Nothing was imported.")
    elif result.spans and not result.hops:
        out.print(Text("No model span is among them, so there is no hop; --explain says more.", style=base.OVER))
    elif result.spans:
        out.print(Text(f"Next: hopbudget report {store}", style=base.QUIET))
