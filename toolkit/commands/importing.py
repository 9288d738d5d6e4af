"""`hopbudget import`."""

import click

from hopbudget.commands.group import hopbudget, json_option
from hopbudget.config import store_path


@hopbudget.command("import", short_help="Add recorded OTLP/JSON spans to a store.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--store", default=None, metavar="FILE", help="The store to add to.  [default: traces.duckdb]")
@json_option
def import_(paths: tuple[str, ...], store: str | None, as_json: bool) -> int:
    """Add recorded spans to a store: OTLP/JSON files, folders and globs.

    Reads .json, .jsonl and .ndjson, each also as .gz: one object, an array, or one
    object a line. A bad line is reported and everything else is imported. Importing
    the same spans again adds nothing. Messages, prompts and tool arguments are dropped.
    """
    from hopbudget.importing import import_files

    return import_files(paths, store_path(store), as_json=as_json)
