"""`hopbudget backtest`."""

import click

from hopbudget.commands.group import hopbudget, json_option, sources


@hopbudget.command(short_help="Would a plan have held on runs it never saw?")
@sources
@click.option("--run-by", metavar="KEY", help="The attribute that names the run; whole runs are held out.")
@click.option(
    "--deadline",
    "deadlines",
    default="p80,p90,p95",
    show_default=True,
    metavar="p90,12s,...",
    help="Deadlines to try; percentiles are learned anew each time.",
)
@click.option(
    "--percentile",
    type=click.FloatRange(1, 100, max_open=True),
    default=90.0,
    show_default=True,
    help="The share of trajectories that a plan promises.",
)
@click.option("--binds", type=click.Choice(["last", "answer"]), default="last", show_default=True)
@click.option(
    "--slots",
    type=click.Choice(["name", "before", "visit"]),
    help="What a slot is; by name, unless all hops have one name: then by what came before.",
)
@json_option
def backtest(
    *,
    source: tuple[str, ...],
    workload: str | None,
    where: tuple[str, ...],
    run_by: str | None,
    deadlines: str,
    percentile: float,
    binds: str,
    slots: str | None,
    as_json: bool,
) -> int:
    """Hold out whole runs (else sessions) in turn, learn everything on the rest, and
    see whether it held: every split against the deadline alone, the chance, the
    steps that fit, giving up, expectations, the stream, the smallest deadline.

    Exit code 3 when there is too little to hold anything out.
    """
    from hopbudget.plans.backtesting import backtest as run
    from hopbudget.reports.reading import Selection

    return run(
        Selection(source, workload, where),
        deadlines,
        run_by=run_by,
        percentile=percentile,
        binds=binds,  # type: ignore[arg-type]
        slots=slots,  # type: ignore[arg-type]
        as_json=as_json,
    )
