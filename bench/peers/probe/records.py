"""What a library recorded of one call, in one form whatever it exports."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

_TOKEN_KEYS: Final = (
    "hopbudget.output_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_TOKEN_OBJECTS: Final = ("langfuse.observation.usage_details", "mlflow.chat.tokenUsage")
_FIRST: Final = ("first", "ttft", "completion_start_time")
_FIRST_TEXT: Final = ("Ten", "tokens")
"""The first two tokens of the endpoint's scripted answers; a record that holds both kept the text."""


@dataclass(slots=True)
class Record:
    """One span, or what stands for one. `first_s`: everything that calls itself a first token or chunk, by name."""

    name: str
    start_ns: int
    end_ns: int
    status: str
    error: str | None = None
    outcome: str | None = None
    tokens: int | None = None
    text_kept: bool = False
    first_s: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As an object."""
        return asdict(self)


def of_span(span: Any) -> Record:
    """A span of the OpenTelemetry SDK."""
    attributes = dict(span.attributes or {})
    status = span.status.status_code.name.lower()
    if attributes.get("langfuse.observation.level") == "ERROR":
        status = "error"
    exceptions = [(event.attributes or {}).get("exception.type") for event in span.events if event.name == "exception"]
    error = attributes.get("error.type") or next(iter(exceptions), None) or span.status.description
    return Record(
        name=span.name,
        start_ns=span.start_time,
        end_ns=span.end_time,
        status=status,
        error=str(error) if error else None,
        outcome=attributes.get("hopbudget.outcome"),
        tokens=output_tokens(attributes),
        text_kept=holds_text([attributes, [dict(event.attributes or {}) for event in span.events]]),
        first_s={**first_attributes(attributes, span.start_time), **_first_events(span)},
    )


def first_attributes(attributes: Mapping[str, Any], start_ns: int) -> dict[str, float]:
    """Every attribute that names a first token or chunk, in seconds; a date counts from the span's start."""
    found: dict[str, float] = {}
    for key, value in attributes.items():
        if not any(part in key.lower() for part in _FIRST) or isinstance(value, bool):
            continue
        if isinstance(value, (int, float)):
            found[key] = float(value)
        elif isinstance(value, str):
            try:
                at = datetime.fromisoformat(value.strip('"').replace("Z", "+00:00"))
            except ValueError:
                continue
            found[key] = at.timestamp() - start_ns / 1e9
    return found


def _first_events(span: Any) -> dict[str, float]:
    """The first of the events that mark chunks, and any that names a first token."""
    found: dict[str, float] = {}
    for event in span.events:
        name = event.name.lower()
        if "first" in name or "chunk" in name:
            kind = "event " + event.name.rstrip("0123456789.")
            found.setdefault(kind, (event.timestamp - span.start_time) / 1e9)
    return found


def output_tokens(attributes: Mapping[str, Any]) -> int | None:
    """Output tokens as the record states them."""
    for key in _TOKEN_KEYS:
        value = attributes.get(key)
        if isinstance(value, (int, float)):
            return int(value)
    for key in _TOKEN_OBJECTS:
        value = attributes.get(key)
        if isinstance(value, str):
            counts = json.loads(value)
            stated = counts.get("output_tokens", counts.get("completion_tokens", counts.get("output")))
            if isinstance(stated, int):
                return stated
    return None


def holds_text(thing: Any) -> bool:
    """Whether the answer's text is anywhere in the record."""
    text = json.dumps(thing, default=str)
    return all(part in text for part in _FIRST_TEXT)


def first_metrics(reader: Any) -> dict[str, float]:
    """Means of the metrics that name a first token or chunk, in their own unit."""
    data = reader.get_metrics_data()
    found: dict[str, float] = {}
    for metric in _metrics(data):
        if not any(part in metric.name.lower() for part in _FIRST):
            continue
        points = list(metric.data.data_points)
        count = sum(getattr(point, "count", 0) for point in points)
        if count:
            found[f"metric {metric.name}"] = sum(point.sum for point in points) / count
    return found


def _metrics(data: Any) -> Iterable[Any]:
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            yield from scope.metrics
