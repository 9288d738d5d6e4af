"""Names of models: the one that is asked for, and the one that answers with its version."""

import re
from collections.abc import Collection
from typing import Final

_VERSION: Final = r"(?:[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest))+$"


def plain(model: str) -> str:
    """The name without its provider and its date: `openai/gpt-4.1-2025-04-14` is `gpt-4.1`."""
    return re.sub(_VERSION, "", model.rpartition("/")[2].lower(), flags=re.ASCII)


def known_as(model: str, models: Collection[str]) -> str | None:
    """The one of these that is this model: of the same name, else the only one of the same plain name."""
    if model in models:
        return model
    same = [name for name in models if plain(name) == plain(model)]
    return same[0] if len(same) == 1 else None
