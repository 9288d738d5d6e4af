"""The share of traces that was kept, where the sender says it: its inverse is a trace's weight.

W3C trace state `ot=th:...` (rejection threshold, 56 bits) or the older `ot=p:n` (probability 2^-n), and the attributes
that samplers write. The trace state is noted as an attribute when a span is decoded, so it is stored with it.
"""

import re
from typing import Final

from hopbudget.store.spans import Attributes
from hopbudget.store.values import number

PROBABILITY: Final = "sampling.probability"
_INVERSE: Final = ("SampleRate", "sample_rate")
"""One in so many."""
_THRESHOLD: Final = re.compile(r"(?:^|,)\s*ot=(?:[^,]*;)?th:([0-9a-fA-F]{1,14})(?:[;,]|$)")
_POWER: Final = re.compile(r"(?:^|,)\s*ot=(?:[^,]*;)?p:(\d{1,2})(?:[;,]|$)")
_LONGEST: Final = 4_096
_ALL: Final = 1 << 56
_NO_POWER: Final = 63
"""Stands for "never sampled" in the older form."""


def noted(attributes: Attributes, trace_state: str) -> Attributes:
    """The attributes, with the probability that the trace state says, if it says one and they do not."""
    if "ot=" not in trace_state or PROBABILITY in attributes or len(trace_state) > _LONGEST:
        return attributes
    ratio = of_trace_state(trace_state)
    return attributes if ratio is None else attributes | {PROBABILITY: ratio}


def of_trace_state(trace_state: str) -> float | None:
    """The probability in (0, 1] with which such a trace was kept, or None."""
    found = _THRESHOLD.search(trace_state)
    if found:
        return (_ALL - int(found[1].ljust(14, "0"), 16)) / _ALL
    found = _POWER.search(trace_state)
    return 2.0 ** -int(found[1]) if found and int(found[1]) < _NO_POWER else None


def ratio(attributes: Attributes) -> float | None:
    """The probability in (0, 1] that a span or a resource states, or None."""
    said = number(attributes.get(PROBABILITY))
    if said is None and attributes.get("sampler.type") == "probabilistic":
        said = number(attributes.get("sampler.param"))
    if said is None:
        one_in = next((value for name in _INVERSE if (value := number(attributes.get(name)))), None)
        said = 1 / one_in if one_in and one_in >= 1 else None
    return said if said is not None and 0 < said <= 1 else None
