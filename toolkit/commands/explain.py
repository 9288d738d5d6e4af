"""`hopbudget explain`."""

import click

from hopbudget import units
from hopbudget.commands.group import hopbudget, json_option, sources


@hopbudget.command(short_help="Why trajectories were slow, in seconds that add up.")
@sources
@click.option("--slowest", type=click.IntRange(min=1), metavar="N", help="The N slowest trajectories.")
@click.option("--over", metavar="12s", help="Those that took longer than this.")
@json_option
def explain(
    *,
    source: tuple[str, ...],
    workload: str | None,
    where: tuple[str, ...],
    slowest: int | None,
    over: str | None,
    as_json: bool,
) -> int:
    """Say why trajectories were slow: causes in seconds that add up.

    Give a TRACE_ID (its first digits are enough) for one trajectory as a waterfall, or
    --slowest N, or --over 12s. The excess is counted from typical trajectories of the
    same workload, those between the 45th and 55th percentile.
    """
    from hopbudget.reports.explaining import explain as run
    from hopbudget.reports.reading import Selection, split_trace_id

    trace_id, source = split_trace_id(source)
    over_s = units.parse_duration(over, "--over") if over is not None else None
    return run(Selection(source, workload, where), trace_id=trace_id, slowest=slowest, over_s=over_s, as_json=as_json)
