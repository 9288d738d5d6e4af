"""`hopbudget allocate`."""

from pathlib import Path
from typing import Any

import click

from hopbudget.commands.group import hopbudget, json_option, sources


@hopbudget.command(short_help="A plan: a deadline allotted to its hops.")
@sources
@click.option(
    "--deadline",
    required=True,
    metavar="12s|p90",
    help="Seconds from start to end, or a percentile of the recorded ones.",
)
@click.option(
    "--percentile",
    type=click.FloatRange(0, 100, min_open=True, max_open=True),
    default=90.0,
    show_default=True,
    help="The share of trajectories that shall meet it.",
)
@click.option(
    "--binds",
    type=click.Choice(["last", "answer"]),
    default="last",
    show_default=True,
    help="What must come in time: the last token, or the first answer token.",
)
@click.option(
    "--method",
    type=click.Choice(["equal", "equal_tuned", "mean", "quantile", "equal_risk", "independent"]),
    default="independent",
    show_default=True,
    help="How seconds are split over the slots.",
)
@click.option(
    "--slots",
    type=click.Choice(["name", "before", "visit"]),
    default="name",
    show_default=True,
    help="A slot is: a hop's name; name and what came before it; name and visit.",
)
@click.option("--run-by", metavar="KEY", help="The attribute that names the run.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the plan here (TOML).")
@json_option
def allocate(
    *,
    source: tuple[str, ...],
    workload: str | None,
    where: tuple[str, ...],
    run_by: str | None,
    out: Path | None,
    as_json: bool,
    deadline: str,
    **how: Any,
) -> int:
    """Allot a deadline to hops, work and the final stream, from what was observed.

    Exit code 1 when the deadline is infeasible for the percentile, 3 when there are
    too few trajectories to say.
    """
    from hopbudget.planning import allocate as run
    from hopbudget.reading import Selection

    return run(Selection(source, workload, where), deadline, run_by=run_by, out=out, as_json=as_json, **how)
