"""`hopbudget demo`."""

from pathlib import Path

import click

from hopbudget.commands.group import hopbudget

TRAJECTORIES = 120


@hopbudget.command(short_help="See it all on an eight-hop agent.")
@click.option("--trajectories", type=click.IntRange(min=1), help=f"How many agent runs.  [default: {TRAJECTORIES}]")
@click.option("--fault", type=click.Choice(["hang"]), help="See a deadline held where an endpoint pings for ever.")
@click.option(
    "--store",
    default=None,
    metavar="FILE",
    help="Keep the spans in this store; without it nothing is left behind.",
)
def demo(trajectories: int | None, fault: str | None, store: str | None) -> int:
    """Trace an eight-hop agent, allot its deadline, see why late runs were late.

    Runs against the simulated endpoint: no GPU, no network, no key. With --fault hang
    the same agent runs twice, side by side, with a deadline held and without.
    """
    from hopbudget.errors import UserError

    path = Path(store) if store else None
    if fault is not None:
        if trajectories is not None:
            raise UserError("--fault plays two runs side by side; --trajectories belongs to the demo without it.")
        from hopbudget.demo.hang import run as run_hang

        return run_hang(path)
    from hopbudget.demo.showing import run

    return run(path, trajectories or TRAJECTORIES)
