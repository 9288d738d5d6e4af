"""`hopbudget import`."""

import click

from hopbudget.commands.group import hopbudget, json_option
from hopbudget.config.places import store_path


@hopbudget.command("import", short_help="Add recorded spans to a store.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--store", default=None, metavar="FILE", help="The store to add to.  [default: traces.duckdb]")
@click.option("--explain", is_flag=True, help="Say what each source told, and what is missing.")
@click.option("--columns", default=None, metavar="FILE", help="What the columns of Parquet files are, in TOML.")
@click.option("--map", "pairs", multiple=True, metavar="NAME=COLUMN", help="The same for one column, e.g. hop=step.")
@json_option
def import_(
    paths: tuple[str, ...],
    *,
    store: str | None,
    explain: bool,
    columns: str | None,
    pairs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Add recorded spans to a store: files, folders and globs.

    Reads OTLP as JSON (.json, .jsonl, .ndjson: one object, an array, or one object a
    line) and as protobuf (.pb, .binpb), spans as plain JSON objects, and exports of
    the Langfuse API; each also as .gz. Tables of hops in Parquet (.parquet) are read
    with --columns or --map, where their columns aren't named as ours are. A bad line is reported and everything else is
    imported. Importing the same spans again adds nothing. Messages, prompts and tool
    arguments are dropped.
    """
    from hopbudget.importing import import_files
    from hopbudget.store.unmade import unmade_on_failure

    path = store_path(store)
    with unmade_on_failure(path):
        return import_files(paths, path, as_json=as_json, explain=explain, columns=columns, pairs=pairs)
