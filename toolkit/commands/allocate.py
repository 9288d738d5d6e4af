"""`hopbudget allocate`."""

from pathlib import Path
from typing import Any

import click

from hopbudget.commands.group import hopbudget, json_option, sources


@hopbudget.command(short_help="A plan: a deadline allotted to its hops.")
@sources
@click.option(
    "--deadline",
    metavar="12s|p90",
    help="Seconds from start to end, or a percentile of the recorded ones.",
)
@click.option(
    "--percentile",
    type=click.FloatRange(0, 100, min_open=True, max_open=True),
    help="The share of trajectories that shall meet it.  [default: 90]",
)
@click.option(
    "--binds",
    type=click.Choice(["last", "answer", "both"]),
    help="What must come in time: the last token, the first answer token, or both.  [default: last]",
)
@click.option("--answer-deadline", metavar="2s", help="With --binds both: the deadline of the first answer token.")
@click.option(
    "--method",
    type=click.Choice(["auto", "equal_tuned", "independent", "equal_risk", "mean", "quantile", "equal"]),
    help="How seconds are split over the slots; auto cross-validates the others.  [default: auto]",
)
@click.option(
    "--slots",
    type=click.Choice(["name", "before", "visit"]),
    help="A slot is: a hop's name; name and what came before it; name and visit.  [default: name]",
)
@click.option(
    "--unit",
    type=click.Choice(["request", "conversation"]),
    help="What has the deadline: a request, or a session without the person's time.  [default: request]",
)
@click.option("--half-life", metavar="7d", help="Trajectories so much older than the newest weigh half.")
@click.option("--run-by", metavar="KEY", help="The attribute that names the run.")
@click.option(
    "--what-if",
    "changes",
    multiple=True,
    metavar="CHANGE",
    help="Instead of a plan, the effect of one change: plan:tokens=200, search:scale=0.6, drop:verify, "
    "plan:model=other. Repeatable.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the plan here (TOML).")
@click.option(
    "--update",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Learn this plan again with its own settings, show what changed, and write it (to --out, if given).",
)
@json_option
def allocate(
    *,
    source: tuple[str, ...],
    workload: str | None,
    where: tuple[str, ...],
    changes: tuple[str, ...],
    out: Path | None,
    update: Path | None,
    as_json: bool,
    **asked: Any,
) -> int:
    """Allot a deadline to hops, work and the final stream, from what was observed.

    Exit code 1 when the deadline is infeasible for the percentile, 3 when there are
    too few trajectories to say.
    """
    from hopbudget.plans import planning, updating, wondering
    from hopbudget.reports.reading import Selection

    selection = Selection(source, workload, where)
    if changes:
        return wondering.what_if(selection, planning.Asked(**asked), changes, as_json=as_json)
    if update is not None:
        return updating.update(selection, planning.Asked(**asked), update, out or update, as_json=as_json)
    return planning.allocate(selection, planning.Asked(**asked), out=out, as_json=as_json)
