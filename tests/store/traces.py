"""Spans trace by trace."""

from collections.abc import Iterable

from hopbudget.store.spans import Span
from hopbudget.store.walker import Piece


def by_trace(spans: Iterable[Span]) -> list[list[Span]]:
    """The first span of each id, by trace."""
    found: dict[str, dict[str, Span]] = {}
    for span in spans:
        found.setdefault(span.trace_id, {}).setdefault(span.span_id, span)
    return [list(trace.values()) for trace in found.values()]


def traces_in(pieces: Iterable[Piece]) -> list[list[Span]]:
    """The traces of a file in which nothing is to be rejected."""
    spans: list[Span] = []
    for piece in pieces:
        assert piece.decoded.rejected == []
        spans += piece.decoded.spans
    return by_trace(spans)
