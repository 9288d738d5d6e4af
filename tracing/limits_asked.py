"""What the code asks of a hop, and what holds for it together with what is said around it."""

from typing import Final

from hopbudget.tracing.limits import Limits
from hopbudget.tracing.modes import NO_LIMITS, HopTerms, Mode, read_mode

__all__ = ["NOTHING_ASKED", "Asked", "HopTerms", "Rules", "read_mode"]

ENFORCED: Final = frozenset({"deadline", "abort"})
_KEPT: Final = 64
"""Rules of one hop that are kept; a reload of the configuration makes new ones."""


class Rules:
    """What holds for a hop: its limits, and how they are held."""

    __slots__ = ("around", "enforced", "found", "limits", "may_object", "mode", "refuse", "retries")

    def __init__(self, asked: "Asked", found: HopTerms, around: Mode) -> None:
        """`found`: its limits by what is said around it, where `around` is the mode."""
        self.found = found
        self.around = around
        self.limits = _limits(asked.terms, found)
        self.mode: Mode = asked.terms.mode or found.mode or around
        self.enforced = self.mode in ENFORCED
        self.refuse = asked.refuse
        self.retries = asked.retries
        self.may_object = self.mode == "abort" or (self.enforced and bool(asked.refuse))
        """Whether anything may speak against sending it."""


class Asked:
    """What the code asks of a hop."""

    __slots__ = ("_all", "last", "refuse", "retries", "terms")

    def __init__(
        self, terms: HopTerms = NO_LIMITS, refuse: bool | float | None = None, retries: str | None = None
    ) -> None:
        self.terms = terms
        self.refuse = refuse
        self.retries = retries
        self._all: dict[tuple[int, Mode], Rules] = {}
        self.last = Rules(self, NO_LIMITS, terms.mode or "observe")
        """Those of its last call, which mostly are those of the next."""

    def rules(self, found: HopTerms, around: Mode) -> Rules:
        """What holds where this is said around it."""
        key = id(found), around
        known = self._all.get(key)
        if known is None or known.found is not found:
            if len(self._all) >= _KEPT:
                self._all.clear()
            known = self._all[key] = Rules(self, found, around)
        self.last = known
        return known


def _limits(own: HopTerms, around: HopTerms) -> Limits:
    return Limits(
        around.first_token_s if own.first_token_s is None else own.first_token_s,
        around.stall_s if own.stall_s is None else own.stall_s,
        around.completion_s if own.completion_s is None else own.completion_s,
        silent_thinking=own.silent_thinking or around.silent_thinking,
    )


NOTHING_ASKED: Final = Asked()
