"""The list of models, in the form of whichever client asks: Anthropic's says so in a header."""

from collections.abc import Mapping
from typing import Any, Final

from hopbudget.endpoint.gpu import GPUS

OWNER: Final = "hopbudget-simulation"


def is_anthropic(headers: Mapping[str, str]) -> bool:
    """Whether the request (header names in lower case) comes from a client of Anthropic's API."""
    return "anthropic-version" in headers


def model_object(name: str, *, anthropic: bool) -> dict[str, Any]:
    """One model."""
    if anthropic:
        return {"id": name, "type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "created": 0, "owned_by": OWNER}


def model_list(*, anthropic: bool) -> dict[str, Any]:
    """Every model."""
    data = [model_object(name, anthropic=anthropic) for name in GPUS]
    if anthropic:
        return {"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}
    return {"object": "list", "data": data}
