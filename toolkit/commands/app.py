"""`hopbudget app`."""

import click

from hopbudget.commands.group import hopbudget
from hopbudget.config.places import store_path


@hopbudget.command(short_help="Open the Streamlit app on a store.")
@click.option("--store", default=None, metavar="FILE", help="The store to look at.  [default: traces.duckdb]")
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
def app(store: str | None, port: int) -> int:
    """Open the Streamlit app on a store."""
    from hopbudget.serving import open_app

    return open_app(store_path(store), port)
