"""`hopbudget trace`."""

import click

from hopbudget.commands.group import hopbudget
from hopbudget.config.places import store_path


@hopbudget.command(
    "trace",
    short_help="Run an agent unchanged and record it.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--store", default=None, metavar="FILE", help="Where to record.  [default: traces.duckdb]")
@click.option(
    "--trajectory",
    metavar="MODULE:FUNCTION",
    help="The function whose every call is one agent run; without it, see above.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def trace(store: str | None, trajectory: str | None, command: tuple[str, ...]) -> int:
    """Run an agent unchanged, and record its model calls.

    \b
      hopbudget trace -- python agent.py --question "why?"
      hopbudget trace --trajectory app.agent:answer -- uvicorn app:api

    Every call of the openai, anthropic and litellm clients, and of what is built
    on them, is a hop. Its trajectory is the decorated or named function around it,
    else another instrumentation's agent span, else the request of a service
    (its SERVER span), else the whole run of the command. Python processes that the
    command starts are recorded too. Exits as the command does.
    """
    from hopbudget.recording.launching import trace_command

    return trace_command(command, store_path(store), trajectory)
