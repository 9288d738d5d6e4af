"""Faults of connections rather than of streams: what a client's time limits and retries are for.

The first tokens of each are those of the plain row; what comes after never ends well.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hopbudget.endpoint.faults import FIRST_S, GAP_S, error_in_band, plain
from hopbudget.endpoint.script import Script

PING_EVERY_S: Final = 0.05
NOTHING: Final = replace(plain(), steps=())
AFTER_THREE_S: Final = round(FIRST_S + 3 * GAP_S, 6)
THREE_TOKENS: Final = replace(plain(), steps=plain().steps[:4], end_s=AFTER_THREE_S)


def reset() -> Script:
    """The connection is reset before any answer."""
    return replace(NOTHING, headers=False, ending="reset")


def cut() -> Script:
    """Three tokens, then the connection is reset."""
    return replace(THREE_TOKENS, ending="reset")


def headers_never() -> Script:
    """The request is taken and never answered."""
    return replace(NOTHING, headers=False, ending="hang")


def silence() -> Script:
    """Headers at once, then nothing."""
    return replace(NOTHING, ending="hang")


def pings_forever() -> Script:
    """Headers at once, then pings and nothing else."""
    return replace(NOTHING, ending="ping")


def stall() -> Script:
    """Three tokens, then nothing."""
    return replace(THREE_TOKENS, ending="hang")


def stall_with_pings() -> Script:
    """Three tokens, then pings and nothing else."""
    return replace(THREE_TOKENS, ending="ping")


def failed() -> Script:
    """As A6, with the failure as the response's own last event rather than as an error event."""
    script = error_in_band()
    return replace(script, steps=(*script.steps[:-1], replace(script.steps[-1], kind="failed")))


BREAKS: Final[dict[str, Callable[[], Script]]] = {
    "reset": reset,
    "cut": cut,
    "headers-never": headers_never,
    "silence": silence,
    "pings-forever": pings_forever,
    "stall": stall,
    "stall-pings": stall_with_pings,
    "failed": failed,
}
"""Every such fault by the name that the header `x-hopbudget-row` takes."""
