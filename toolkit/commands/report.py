"""`hopbudget report`."""

from dataclasses import replace
from pathlib import Path

import click

from hopbudget.commands.group import hopbudget, json_option, sources


@hopbudget.command(short_help="Trajectories, hops by name, first tokens, pace.")
@sources
@click.option("--by", metavar="KEY", help="One row for each value of this attribute.")
@click.option("--window", metavar="FROM..TO", help="Only trajectories started then (UTC), e.g. 2026-11-01..2026-11-08.")
@click.option("--breaches", is_flag=True, help="Why a deadline was missed: causes, hops, what late ones share.")
@click.option("--deadline", metavar="12s|p90", help="The deadline of --breaches.  [default: configured, else p90]")
@click.option("--against", metavar="STORE-OR-FILE", multiple=True, help="Compare with this; repeatable for files.")
@click.option("--against-where", metavar="KEY=VALUE", multiple=True, help="The other side's --where.")
@click.option("--against-window", metavar="FROM..TO", help="The other side's --window.")
@click.option("--against-workload", metavar="NAME", help="The other side's --workload.")
@click.option(
    "--pair-by",
    metavar="KEY|auto|none",
    help="The attribute that names the task.  [default: task, case, ... if both have it]",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write one printable page instead, over what is there.",
)
@json_option
def report(
    *,
    source: tuple[str, ...],
    workload: str | None,
    where: tuple[str, ...],
    by: str | None,
    window: str | None,
    breaches: bool,
    deadline: str | None,
    against: tuple[str, ...],
    against_where: tuple[str, ...],
    against_window: str | None,
    against_workload: str | None,
    pair_by: str | None,
    html: Path | None,
    as_json: bool,
) -> int:
    """Show what was recorded: trajectories, hops by name, first tokens, pace.

    \b
      hopbudget report --breaches --deadline 12s       why trajectories came late
      hopbudget report a.jsonl --against b.jsonl       two recordings compared
      hopbudget report --where service.version=2 --against-where service.version=1
      hopbudget report --html report.html              all of it as one page

    STORE-OR-FILES is a store (./traces.duckdb unless said), OTLP/JSON files, or a
    folder that `hopbudget store export` wrote; the last two are read in memory.
    """
    from hopbudget.errors import UserError
    from hopbudget.reports.reading import Selection

    selection = Selection(source, workload, where, window)
    compared = bool(against or against_where or against_window or against_workload)
    kinds = [name for name, chosen in (("--by", by), ("--breaches", breaches), ("--against", compared)) if chosen]
    if len(kinds) > 1:
        raise UserError(f"{' and '.join(kinds)} are different reports; give one of them.")
    if pair_by is not None and not compared:
        raise UserError("--pair-by belongs to --against.")
    if html is not None:
        if kinds or as_json:
            raise UserError("--html holds the whole report; give it without --by, --breaches, --against and --json.")
        from hopbudget.reports.paging import write_page

        return write_page(selection, html, deadline=deadline)
    if breaches:
        from hopbudget.reports.breaching import report_breaches

        return report_breaches(selection, deadline=deadline, as_json=as_json)
    if deadline is not None:
        raise UserError("--deadline belongs to --breaches and --html.")
    if compared:
        from hopbudget.reports.comparing import report_against

        other = replace(
            selection,
            source=against or source,
            workload=against_workload if against_workload is not None else (None if against else workload),
            where=against_where or (() if against else where),
            window=against_window if against_window is not None else (None if against else window),
        )
        return report_against(selection, other, pair_by=pair_by, as_json=as_json)
    from hopbudget.reports.reporting import report as run

    return run(selection, by=by, as_json=as_json)
