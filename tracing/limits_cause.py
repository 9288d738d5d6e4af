"""Where the time of a trajectory went so far: who overspent, and on what. Kept by hop name, so that it stays small."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from hopbudget.tracing.clock import seconds

WORK: Final = "work"
FOLD_AT: Final = 64
"""Calls that are kept as they came before they are added up."""


class Took(NamedTuple):
    """What one call took, in nanoseconds; the parts are 0 where they are not known."""

    name: str
    began_ns: int
    ended_ns: int
    backoff_ns: int = 0
    first_token_ns: int = 0
    writing_ns: int = 0
    tokens: int = 0


class Spent:
    """What the hops of one name, or work, took so far, in seconds."""

    __slots__ = ("backoff_s", "first_token_s", "name", "seconds", "tokens", "visits", "writing_s")

    def __init__(self, name: str, seconds: float = 0.0) -> None:
        self.name = name
        self.seconds = seconds
        self.visits = 0
        self.backoff_s = self.first_token_s = self.writing_s = 0.0
        self.tokens = 0

    def add(self, took: Took) -> None:
        """One more visit."""
        self.seconds += seconds(took.ended_ns - took.began_ns)
        self.visits += 1
        self.backoff_s += seconds(took.backoff_ns)
        self.first_token_s += seconds(took.first_token_ns)
        self.writing_s += seconds(took.writing_ns)
        self.tokens += took.tokens

    def because(self) -> str:
        """What most of it was, where that is known; a beginning of words that go on after the seconds."""
        parts = {
            f"{self.backoff_s:.2f} s of it between retries": self.backoff_s,
            f"{self.first_token_s:.2f} s of it waiting for first tokens": self.first_token_s,
            f"{self.writing_s:.2f} s of it for {self.tokens} chunks of tokens": self.writing_s,
        }
        words, most_s = max(parts.items(), key=lambda part: part[1])
        visits = f" in {self.visits} visits" if self.visits > 1 else ""
        return f"{visits}, {words}" if most_s * 2 > self.seconds else visits


class Ledger:
    """What the calls of one trajectory took."""

    __slots__ = ("_covered_ns", "_model_ns", "_new", "_spent")

    def __init__(self, started_ns: int) -> None:
        self._new: list[Took] = []
        self._spent: dict[str, Spent] = {}
        self._model_ns = 0
        self._covered_ns = started_ns

    def add(self, took: Took) -> None:
        """A call has ended."""
        self._new.append(took)
        if len(self._new) >= FOLD_AT:
            self._fold()

    def _fold(self) -> None:
        for took in self._new:
            self._spent.setdefault(took.name, Spent(took.name)).add(took)
            self._model_ns += max(took.ended_ns - max(took.began_ns, self._covered_ns), 0)
            self._covered_ns = max(took.ended_ns, self._covered_ns)
        self._new.clear()

    def spent(self, elapsed_s: float, here: Took | None = None) -> list[Spent]:
        """Who took how much of the time so far, work among them. `here`: a call that is open, up to now."""
        self._fold()
        found = dict(self._spent)
        model_ns = self._model_ns
        if here is not None:
            model_ns += max(here.ended_ns - max(here.began_ns, self._covered_ns), 0)
            found[here.name] = _with(found.get(here.name), here)
        return [*found.values(), Spent(WORK, max(elapsed_s - seconds(model_ns), 0.0))]


def _with(spent: Spent | None, took: Took) -> Spent:
    both = Spent(took.name)
    if spent is not None:
        for name in Spent.__slots__:
            setattr(both, name, getattr(spent, name))
    both.add(took)
    return both


def overspender(spent: Iterable[Spent], budget_s: Callable[[str], float | None]) -> Spent | None:
    """Who is furthest beyond its budget; where nobody is, or there are no budgets, who took most."""
    known = [slot for slot in spent if slot.seconds > 0]
    over = {slot: slot.seconds - (budget_s(slot.name) or slot.seconds) for slot in known}
    worst = max(known, key=over.__getitem__, default=None)
    if worst is not None and over[worst] > 0:
        return worst
    return max(known, key=lambda slot: slot.seconds, default=None)


def sentence(spent: Iterable[Spent], budget_s: Callable[[str], float | None]) -> str | None:
    """Who overspent, in words; None while nothing was spent."""
    found = overspender(spent, budget_s)
    if found is None:
        return None
    who = "work between the hops" if found.name == WORK else f"hop {found.name!r}"
    own_s = budget_s(found.name)
    of = "" if own_s is None else f" of a budget of {own_s:.2f} s"
    return f"{who} took {found.seconds:.2f} s{of}{found.because()}"
