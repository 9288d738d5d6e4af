"""The command `hopbudget`, and the options that its commands share."""

import functools
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TypeVar, cast

import click

Command = TypeVar("Command", bound=Callable[..., Any])


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
