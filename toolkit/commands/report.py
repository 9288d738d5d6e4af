"""`hopbudget report`."""

import click

from hopbudget.commands.group import hopbudget, json_option, sources


@hopbudget.command(short_help="Trajectories, hops by name, first tokens, pace.")
@sources
@click.option("--by", metavar="KEY", help="One row for each value of this attribute.")
@json_option
def report(
    *, source: tuple[str, ...], workload: str | None, where: tuple[str, ...], by: str | None, as_json: bool
) -> int:
    """Show what was recorded: trajectories, hops by name, first tokens, pace.

    STORE-OR-FILES is a store (./traces.duckdb unless said) or OTLP/JSON files, which
    are read in memory.
    """
    from hopbudget.reading import Selection
    from hopbudget.reporting import report as run

    return run(Selection(source, workload, where), by=by, as_json=as_json)
