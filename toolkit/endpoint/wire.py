"""What every API's wire format has in common: steps in, bytes with their times out."""

from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from hopbudget.endpoint.script import Framing, Script, Step, Write, event, fragments

FINGERPRINT: Final = "hopbudget-simulation"
"""Stands in answers, so that nobody takes a simulated time for a measured one."""


class Wire(Protocol):
    """One answer in the form of one API."""

    @property
    def id(self) -> str:
        """The answer's name."""
        ...

    def encoded(self, script: Script) -> Iterator[tuple[Step, bytes]]:
        """Each step of the stream with its bytes; none where this API has nothing to send for it."""
        ...

    def ping(self, framing: Framing) -> bytes:
        """A sign of life that carries no data."""
        ...

    def reply(self, script: Script) -> dict[str, Any]:
        """The answer as one object."""
        ...


def writes(wire: Wire, script: Script) -> Iterator[Write]:
    """The answer as a stream: bytes and when to write them."""
    size = script.framing.fragment_bytes
    before_s = 0.0
    for number, (step, data) in enumerate(wire.encoded(script)):
        if data:
            # From event to event the cuts move on by a byte, so that some fall inside a character whatever stands
            # before it.
            first = 1 + number % size if size else 1
            yield from fragments(step, data, size, first=first, earliest_s=before_s)
            before_s = step.after_s


def typed(events: Iterator[dict[str, Any]], framing: Framing) -> bytes:
    """Events whose name is their `type`, as bytes."""
    return b"".join(event(msgspec.json.encode(data), framing, data["type"]) for data in events)
