"""The time to a stream's first chunk, wherever and in whatever unit a source writes it. Pure.

What can't be right is not believed: it gives no time, and a word that says why.
"""

from typing import Final, NamedTuple

from hopbudget.store.dialects import First, Unit
from hopbudget.store.shapes import Shape
from hopbudget.store.spans import Event, Span
from hopbudget.store.values import instant, signed

OUTSIDE: Final = "ttft_outside_span"
NEGATIVE: Final = "ttft_negative"
DROPPED: Final = "events_dropped"
UNREADABLE: Final = "ttft_unreadable"

_EPS_S: Final = 1e-6
_EPS_INSTANT_S: Final = 1e-3
"""Moments are often written in milliseconds."""
_PER_SECOND: Final = {Unit.S: (1.0,), Unit.MS: (1e3,), Unit.US: (1e6,), Unit.NS: (1e9,), Unit.FITTING: (1.0, 1e3, 1e6)}
NS: Final = 1e9


class FirstChunk(NamedTuple):
    """What a span says of its first chunk."""

    after_s: float | None
    """From the span's start; None if it isn't said or not believed."""
    said_by: str
    """The attribute, or `event` and its name."""
    flaw: str | None
    """Why it isn't believed."""


def first_chunk(span: Span, shape: Shape) -> FirstChunk | None:
    """What the span says, None if it says nothing: the first place that can be believed, else the first one."""
    doubted: FirstChunk | None = None
    for place in shape.first:
        found = _of_attribute(span, place)
        if found.flaw is None:
            return found
        doubted = doubted or found
    if span.events is not None:
        for name in shape.first_events:
            event = next((event for event in span.events if event.name == name), None)
            if event is not None:
                found = _of_event(span, event)
                if found.flaw is None:
                    return found
                doubted = doubted or found
    return doubted


def _of_attribute(span: Span, place: First) -> FirstChunk:
    value = span.attributes[place.name]
    if place.unit is Unit.INSTANT:
        at_ns = instant(value)
        if at_ns is None:
            return FirstChunk(None, place.name, UNREADABLE)
        return _judged(span, (at_ns - span.start_ns) / NS, place.name, _EPS_INSTANT_S)
    said = signed(value)
    if said is None:
        return FirstChunk(None, place.name, UNREADABLE)
    length_s = (span.end_ns - span.start_ns) / NS
    possible = [said / per_second for per_second in _PER_SECOND[place.unit]]
    after_s = next((one for one in possible if one <= length_s + _EPS_S), possible[-1])
    return _judged(span, after_s, place.name, _EPS_S)


def _of_event(span: Span, event: Event) -> FirstChunk:
    name = f"event {event.name}"
    if span.dropped_events:
        return FirstChunk(None, name, DROPPED)
    return _judged(span, (event.at_ns - span.start_ns) / NS, name, _EPS_S)


def _judged(span: Span, after_s: float, said_by: str, eps_s: float) -> FirstChunk:
    length_s = (span.end_ns - span.start_ns) / NS
    if after_s < -eps_s:
        return FirstChunk(None, said_by, NEGATIVE)
    if after_s > length_s + eps_s:
        return FirstChunk(None, said_by, OUTSIDE)
    return FirstChunk(max(0.0, after_s), said_by, None)
