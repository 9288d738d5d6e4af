"""`hopbudget store`."""

from pathlib import Path

import click

from hopbudget.commands.group import hopbudget, json_option

_store = click.option("--store", default=None, metavar="FILE", help="The store.  [default: traces.duckdb]")


@hopbudget.group(short_help="Prune, compact or export a store.")
def store() -> None:
    """Keep a store in shape, while agents write to it and others read it."""


@store.command(short_help="Remove what is old and in no window.")
@_store
@click.option("--older-than", required=True, metavar="90d", help="Traces that began so long ago or longer.")
@click.option("--config", metavar="FILE", help="Whose windows stay.  [default: HOPBUDGET_CONFIG or ./hopbudget.toml]")
@click.option("--yes", is_flag=True, help="Remove them; without it only figures are shown.")
@json_option
def prune(store: str | None, older_than: str, config: str | None, yes: bool, as_json: bool) -> int:
    """Show what is older than so long, and with --yes remove it.

    Nothing inside a window of hopbudget.toml goes, nor anything of the last 30 days.
    """
    from hopbudget import keeping

    return keeping.prune(store, older_than, config_path=config, yes=yes, as_json=as_json)


@store.command(short_help="Write the file anew, smaller.")
@_store
@json_option
def compact(store: str | None, as_json: bool) -> int:
    """Write the store anew without the room of what was removed.

    Readers go on meanwhile; writers wait, and agents don't notice: they write to the
    spool.
    """
    from hopbudget import keeping

    return keeping.compact(store, as_json=as_json)


@store.command(short_help="Parquet files, one a day and table.")
@_store
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER")
@click.option(
    "--table",
    "tables",
    multiple=True,
    type=click.Choice(["trajectories", "hops", "works"]),
    help="Only this table; repeatable.",
)
@json_option
def export(store: str | None, out: Path, tables: tuple[str, ...], as_json: bool) -> int:
    """Write Parquet files: FOLDER/TABLE/day=2026-03-01/TABLE.parquet.

    Days are of UTC, by the start of the trajectory. Exporting again writes the days
    that are stored anew and leaves others as they are.
    """
    from hopbudget import keeping

    return keeping.export(store, out, tables=tables, as_json=as_json)
