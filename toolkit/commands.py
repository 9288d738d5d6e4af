"""The commands: each reads its options, calls one function of another room, and draws what comes back."""

import functools
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from hopbudget import units
from hopbudget.config import store_path
from hopbudget.errors import Exit, UserError

Command = TypeVar("Command", bound=Callable[..., Any])


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


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(version("hopbudget"), "-V", "--version", message="hopbudget %(version)s")
def hopbudget() -> None:
    """Give an agent's end-to-end deadline to its hops, and see what broke it.

    \b
    Start here:
      hopbudget demo                     an agent traced, its deadline allotted
      hopbudget import runs.jsonl        OTLP/JSON files into ./traces.duckdb
      hopbudget report                   what was recorded, hop by hop
      hopbudget allocate --deadline p90  a plan for a deadline
      hopbudget explain --slowest 10     why the slow ones were slow

    \b
    Exit codes: 0 done; 1 the answer is no; 2 usage; 3 can't say (too little
    data); 4 environment (extra missing, port taken, store too new).
    """


def sources(command: Command) -> Command:
    """Options that every reading command shares; `--store` becomes one more source."""

    @functools.wraps(command)
    def with_store(*, source: tuple[str, ...], store: str | None, **rest: Any) -> int:
        return int(command(source=(*([store] if store else []), *source), **rest))

    decorated: Any = with_store
    for option in (
        click.option(
            "--where",
            "where",
            multiple=True,
            metavar="KEY=VALUE",
            help="Only trajectories with this attribute; repeatable.",
        ),
        click.option("--workload", metavar="NAME", help="Only trajectories of this workload."),
        click.option("--store", metavar="FILE", help="The store to read; the same as naming it."),
        click.argument("source", nargs=-1, metavar="[STORE-OR-FILES]..."),
    ):
        decorated = option(decorated)
    return cast("Command", decorated)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object on standard output, times in seconds."
)


@hopbudget.command("import", short_help="Add recorded OTLP/JSON spans to a store.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--store", default=None, metavar="FILE", help="The store to add to.  [default: traces.duckdb]")
@json_option
def import_(paths: tuple[str, ...], store: str | None, as_json: bool) -> int:
    """Add recorded spans to a store: OTLP/JSON files, folders and globs.

    Reads .json, .jsonl and .ndjson, each also as .gz: one object, an array, or one
    object a line. A bad line is reported and everything else is imported. Importing
    the same spans again adds nothing. Messages, prompts and tool arguments are dropped.
    """
    from hopbudget.importing import import_files

    return import_files(paths, store_path(store), as_json=as_json)


@hopbudget.command(short_help="Trajectories, hops by name, first tokens, pace.")
@sources
@click.option("--by", metavar="KEY", help="One row for each value of this attribute.")
@json_option
def report(
    *, source: tuple[str, ...], workload: str | None, where: tuple[str, ...], by: str | None, as_json: bool
) -> int:
    """Show what was recorded: trajectories, hops by name, first tokens, pace.

    STORE-OR-FILES is a store (./traces.duckdb unless said) or OTLP/JSON files, which
    are read in memory.
    """
    from hopbudget.reading import Selection
    from hopbudget.reporting import report as run

    return run(Selection(source, workload, where), by=by, as_json=as_json)


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
    from hopbudget.explaining import explain as run
    from hopbudget.reading import Selection, split_trace_id

    trace_id, source = split_trace_id(source)
    over_s = units.parse_duration(over, "--over") if over is not None else None
    return run(Selection(source, workload, where), trace_id=trace_id, slowest=slowest, over_s=over_s, as_json=as_json)


@hopbudget.command(short_help="Serve a simulated model endpoint.")
@click.option("--port", type=click.IntRange(0, 65535), default=8399, show_default=True, help="0 picks a free one.")
@click.option("--seed", default=0, show_default=True, help="Same seed, same times.")
def endpoint(port: int, seed: int) -> int:
    """Serve a simulated OpenAI- and Anthropic-compatible endpoint on loopback.

    Its GPU is a model: seeded first-token and token times, no network, no GPU. It says
    in every answer that it is a simulation.
    """
    from hopbudget.endpoint.serving import serve

    serve(port, seed=seed, on_ready=lambda url: click.echo(f"listening on {url}"))
    return Exit.DONE


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


@hopbudget.command(short_help="Open the Streamlit app on a store.")
@click.option("--store", default=None, metavar="FILE", help="The store to look at.  [default: traces.duckdb]")
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
def app(store: str | None, port: int) -> int:
    """Open the Streamlit app on a store."""
    from hopbudget.serving import open_app

    return open_app(store_path(store), port)


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
    from hopbudget.launching import trace_command

    return trace_command(command, store_path(store), trajectory)
