"""What a trajectory's root and its resource say of the trajectory as a whole. Pure."""

from typing import Final, NamedTuple

import msgspec

from hopbudget.store import sampling, shapes
from hopbudget.store.shapes import Shape
from hopbudget.store.spans import Attributes, Span, Value
from hopbudget.store.values import number, text
from hopbudget.tracing import vocabulary as v

_NO_SERVICE: Final = "unknown_service"
"""What OpenTelemetry calls a service that nobody named."""
_NO_ATTRIBUTES: Final[Attributes] = {}
_as_json: Final = msgspec.json.encode


class Said(NamedTuple):
    """Columns of a trajectory that need nothing but its root."""

    workload: str
    run: str | None
    session: str | None
    service: str | None
    deadline_s: float | None
    plan: str | None
    intervened: bool
    attributes: dict[str, str]
    sampling_ratio: float | None


def said(span: Span, shape: Shape, *, is_root: bool = True) -> Said:
    """What this span says as the root, or as the first that came where the root was lost."""
    attributes, resource = span.attributes if is_root else _NO_ATTRIBUTES, span.resource
    service = _words(resource.get("service.name"))
    return Said(
        workload=(_named(span, shape) if is_root else None)
        or (None if service is not None and service.startswith(_NO_SERVICE) else service)
        or (shapes.called(_own_name(span, shape)) if is_root else None)
        or "unknown",
        run=_words(attributes.get(v.RUN)) or _words(resource.get(v.RUN)) or _words(resource.get("service.version")),
        session=text(attributes, shape.session),
        service=service,
        deadline_s=number(attributes.get(v.DEADLINE)),
        plan=_words(attributes.get(v.PLAN)),
        intervened=bool(attributes.get(v.INTERVENED, False)),
        attributes=_texts(resource, attributes),
        sampling_ratio=_sampling_ratio(span, shape),
    )


def _named(root: Span, shape: Shape) -> str | None:
    """What the root calls itself."""
    attributes = root.attributes
    return (
        _words(attributes.get(v.WORKLOAD))
        or shapes.called(text(attributes, shape.agent))
        or shapes.called(text(attributes, shape.workload))
    )


def _own_name(root: Span, shape: Shape) -> str:
    """Of a hop of ours that nothing is around, the hop's; else the span's."""
    return (text(root.attributes, v.HOP) if shape.ours else None) or root.name


def _sampling_ratio(span: Span, shape: Shape) -> float | None:
    """The share that was kept, as the span or its resource says it."""
    if shape.samples:
        return sampling.ratio(span.attributes)
    return sampling.ratio(span.resource) if sampling.PROBABILITY in span.resource else None


def _texts(resource: Attributes, attributes: Attributes) -> dict[str, str]:
    return {name: _as_text(value) for name, value in (resource | attributes).items()}


def _as_text(value: Value) -> str:
    return value if type(value) is str else _as_json(value).decode()


def _words(value: Value | None) -> str | None:
    return None if value is None or value == "" else _as_text(value)
