"""`hopbudget serve`."""

import click

from hopbudget.commands.group import hopbudget
from hopbudget.config.places import store_path
from hopbudget.errors import Exit


@hopbudget.command(short_help="Receive spans over OTLP/HTTP into a store.")
@click.option("--port", type=click.IntRange(0, 65535), default=4318, show_default=True, help="0 picks a free one.")
@click.option("--store", default=None, metavar="FILE", help="The store to fill.  [default: traces.duckdb]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Any other than loopback asks for a token.")
@click.option(
    "--token",
    envvar="HOPBUDGET_TOKEN",
    metavar="TEXT",
    help="The bearer token that senders must show; better given as HOPBUDGET_TOKEN.",
)
@click.option(
    "--most-mb",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="The largest request body, unzipped, in MiB.",
)
def serve(port: int, store: str | None, host: str, token: str | None, most_mb: int) -> int:
    """Receive spans over OTLP/HTTP into a store.

    Point an exporter or a Collector at it: protobuf or JSON, gzip or not, on one port.
    Spans are on disk before they are acknowledged, messages and prompts are dropped
    before that. What comes is moved into the store every two seconds; /healthz
    and /metrics say how it goes.
    """
    from hopbudget.receiver.application import Rules
    from hopbudget.receiver.serving import serve as run

    path = store_path(store)
    run(
        path,
        port,
        host,
        Rules(token=token or None, most_bytes=most_mb << 20),
        on_ready=lambda url: click.echo(f"listening on {url}, storing in {path}"),
        on_problem=lambda problem: click.echo(f"hopbudget: not drained, trying again: {problem}", err=True),
    )
    return Exit.DONE
