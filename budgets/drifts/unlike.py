"""Which names in new trajectories the fingerprint of a plan does not hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from hopbudget.budgets.profile import Ints, Profile, Words

Kind = Literal["model", "hop", "tool", "run"]
OFTEN: Final = 0.05
"""A new name in at least this share of trajectories is a change; a new run is none by itself."""


@dataclass(frozen=True, slots=True)
class Unlike:
    """A name that the plan does not know."""

    kind: Kind
    name: str
    share: float
    """Of trajectories that have it."""
    since: int
    """Row of the first."""

    @property
    def changes(self) -> bool:
        """It says by itself that something has changed."""
        return self.kind != "run" and self.share >= OFTEN


def unlike(profile: Profile, rows: Ints, fingerprint: Mapping[str, Any]) -> tuple[Unlike, ...]:
    """New names among these trajectories (rows, oldest first), the most frequent of each kind first.

    What the fingerprint has no names of is not compared.
    """
    tools = [str(row.get("work", "")) for row in fingerprint.get("works", ())]
    each = np.arange(len(profile))
    kinds: tuple[tuple[Kind, Any, Ints, Words], ...] = (
        ("model", fingerprint.get("models"), profile.hops.trajectory, profile.hops.model),
        ("hop", fingerprint.get("hops"), profile.hops.trajectory, profile.hops.hop),
        ("tool", tools, profile.works.trajectory, profile.works.work),
        ("run", fingerprint.get("runs"), each, profile.trajectories.run),
    )
    place = np.full(len(profile), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    found = []
    for kind, known, trajectory, words in kinds:
        new = [_unlike(kind, name, trajectory[words == name], place, rows) for name in _new(known, words)]
        found += sorted((item for item in new if item is not None), key=lambda item: (-item.share, item.name))
    return tuple(found)


def _new(known: Any, words: Words) -> list[str]:
    return sorted({str(word) for word in words} - {str(word) for word in known} - {""}) if known else []


def _unlike(kind: Kind, name: str, trajectory: Ints, place: Ints, rows: Ints) -> Unlike | None:
    places = np.unique(place[trajectory])
    places = places[places >= 0]
    return Unlike(kind, name, len(places) / len(rows), int(rows[places[0]])) if len(places) else None
