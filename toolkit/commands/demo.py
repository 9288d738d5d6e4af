"""`hopbudget demo`."""

from pathlib import Path

import click

from hopbudget.commands.group import hopbudget


@hopbudget.command(short_help="See it all on an eight-hop agent.")
@click.option("--trajectories", type=click.IntRange(min=1), default=120, show_default=True, help="How many agent runs.")
@click.option(
    "--store",
    default=None,
    metavar="FILE",
    help="Keep the spans in this store; without it nothing is left behind.",
)
def demo(trajectories: int, store: str | None) -> int:
    """Trace an eight-hop agent, allot its deadline, see why late runs were late.

    Runs against the simulated endpoint: no GPU, no network, no key.
    """
    from hopbudget.demo import run

    return run(Path(store) if store else None, trajectories)
