"""`hopbudget alerts`."""

from pathlib import Path

import click

from hopbudget.commands.group import hopbudget, json_option


@hopbudget.command(short_help="Prometheus rules and a Grafana dashboard.")
@click.option("--config", metavar="FILE", help="The objectives.  [default: HOPBUDGET_CONFIG or ./hopbudget.toml]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("alerts"),
    show_default=True,
    metavar="FOLDER",
    help="Where the two files go.",
)
@json_option
def alerts(config: str | None, out: Path, as_json: bool) -> int:
    """Write the objectives as Prometheus rules and a Grafana dashboard.

    They go over the metrics that capture records where the program has set a
    MeterProvider. Objectives that are in no metric are named and left to `check`.
    """
    from hopbudget.objectives.alerting import alerts as run

    return run(config, out, as_json=as_json)
