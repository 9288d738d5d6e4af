"""`hopbudget check`."""

from pathlib import Path

import click

from hopbudget.commands.group import hopbudget, json_option, sources
from hopbudget.errors import UserError

_FILE = click.Path(path_type=Path, dir_okay=False)


@hopbudget.command(short_help="Objectives: kept or not, and what is left to miss.")
@sources
@click.option("--config", metavar="FILE", help="The objectives.  [default: HOPBUDGET_CONFIG or ./hopbudget.toml]")
@click.option("--at", metavar="TIME", help="Where windows end: now, or 2026-03-01T12:00Z.  [default: newest start]")
@click.option("--junit", type=_FILE, metavar="FILE", help="Also write JUnit XML here: a test an objective.")
@click.option("--github", is_flag=True, help="Also print GitHub annotations on the lines of the configuration.")
@click.option("--plan", type=_FILE, metavar="FILE", help="Instead: does this plan still fit what is recorded?")
@click.option("--propose", is_flag=True, help="Instead: write a commented configuration from what is recorded.")
@click.option("--schema", is_flag=True, help="Instead: print the JSON Schema of hopbudget.toml, for editors.")
@click.option("--out", type=_FILE, metavar="FILE", help="Write the proposal or the schema here.")
@click.option("--force", is_flag=True, help="Let --out write over a file.")
@json_option
def check(
    *,
    source: tuple[str, ...],
    workload: str | None,
    where: tuple[str, ...],
    config: str | None,
    at: str | None,
    junit: Path | None,
    github: bool,
    plan: Path | None,
    propose: bool,
    schema: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Say whether objectives hold, from hopbudget.toml and what was recorded.

    Exit code 0 when all are met, 1 when one is breached, 3 when for one the sample is
    too small to say or the file holds no objective. Percentiles are attained ones: a failure is worse than any limit.
    """
    from hopbudget.objectives import checking, proposing
    from hopbudget.reports.reading import Selection

    if sum((plan is not None, propose, schema)) > 1:
        raise UserError("--plan, --propose and --schema are three different questions; ask one.")
    selection = Selection(source, workload, where)
    if schema:
        return proposing.print_schema(out, force=force, as_json=as_json)
    if propose:
        return proposing.propose(selection, out, force=force, as_json=as_json)
    if plan is not None:
        from hopbudget.plans.drifting import check_plan

        return check_plan(selection, plan, as_json)
    if out is not None:
        raise UserError("--out goes with --propose or --schema; --json prints to standard output.")
    return checking.check(selection, config, at=at, junit=junit, github=github, as_json=as_json)
