"""`hopbudget endpoint`."""

import click

from hopbudget.commands.group import hopbudget
from hopbudget.errors import Exit


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
