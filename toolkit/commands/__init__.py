"""The commands, one a module: each reads its options, calls one function of another room, and draws what comes back."""

import click

from hopbudget.commands import (
    alerts,
    allocate,
    app,
    backtest,
    check,
    demo,
    endpoint,
    explain,
    importing,
    report,
    serve,
    store,
    trace,
)
from hopbudget.commands.group import hopbudget
from hopbudget.errors import Exit, UserError

__all__ = [
    "alerts",
    "allocate",
    "app",
    "backtest",
    "check",
    "demo",
    "endpoint",
    "explain",
    "importing",
    "invoke",
    "report",
    "serve",
    "store",
    "trace",
]


def invoke(arguments: list[str]) -> int:
    """Run the command line; returns the exit code. Usage errors become UserError."""
    try:
        result = hopbudget.main(arguments, prog_name="hopbudget", standalone_mode=False)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.Abort:
        return 130
    except click.UsageError as error:
        where = f" See: {error.ctx.command_path} --help" if error.ctx else ""
        raise UserError(error.format_message() + where) from error
    return int(result or Exit.DONE)
