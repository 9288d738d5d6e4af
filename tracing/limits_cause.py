"""Where the time of a trajectory went so far: who overspent, and on what. Kept by hop name, so that it stays small."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from hopbudget.tracing.clock import NANOSECONDS, seconds

if TYPE_CHECKING:
    from hopbudget.tracing.visits import Visit

WORK: Final = "work"
FOLD_AT: Final = 256
"""Calls that are kept as they came before they are added up, which few trajectories make."""


class Took(NamedTuple):
    """What one call took, in nanoseconds; the parts are 0 where they are not known."""

    name: str
    began_ns: int
    ended_ns: int
    backoff_ns: int = 0
    first_token_ns: int = 0
    writing_ns: int = 0
    tokens: int = 0


def took(visit: "Visit", name: str, end_ns: int) -> Took:
    """What the time of a hop's call went to until then, as far as that was seen; `name` is the hop's."""
    clock, backoff_ns = visit.clock, visit.backoff_ns
    if clock is None or clock.first_ns is None:
        return Took(name, visit.begun_ns, end_ns, backoff_ns)
    first_ns = max(clock.first_ns - visit.started_ns - backoff_ns, 0)
    return Took(name, visit.begun_ns, end_ns, backoff_ns, first_ns, clock.last_ns - clock.first_ns, clock.chunks)


class Spent:
    """What the hops of one name, or work, took so far."""

    __slots__ = ("backoff_ns", "first_token_ns", "name", "ns", "tokens", "visits", "writing_ns")

    def __init__(self, name: str, ns: int = 0) -> None:
        self.name = name
        self.ns = ns
        self.visits = 0
        self.backoff_ns = self.first_token_ns = self.writing_ns = 0
        self.tokens = 0

    @property
    def seconds(self) -> float:
        """All of it."""
        return seconds(self.ns)

    def add(self, call: Took) -> None:
        """One more visit."""
        self.visits += 1
        self.ns += call.ended_ns - call.began_ns
        self.backoff_ns += call.backoff_ns
        self.first_token_ns += call.first_token_ns
        self.writing_ns += call.writing_ns
        self.tokens += call.tokens

    def because(self) -> str:
        """What most of it was, where that is known; a beginning of words that go on after the seconds."""
        parts = {
            f"{seconds(self.backoff_ns):.2f} s of it between retries": self.backoff_ns,
            f"{seconds(self.first_token_ns):.2f} s of it waiting for first tokens": self.first_token_ns,
            f"{seconds(self.writing_ns):.2f} s of it for {self.tokens} chunks of tokens": self.writing_ns,
        }
        words, most_ns = max(parts.items(), key=lambda part: part[1])
        visits = f" in {self.visits} visits" if self.visits > 1 else ""
        return f"{visits}, {words}" if most_ns * 2 > self.ns else visits


class Ledger:
    """What the calls of one trajectory took."""

    __slots__ = ("_covered_ns", "_model_ns", "_new", "_spent")

    def __init__(self, started_ns: int) -> None:
        self._new: list[tuple[str, int, int] | Took] = []
        self._spent: dict[str, Spent] = {}
        self._model_ns = 0
        """The union of the calls, each after the one that ended before it."""
        self._covered_ns = started_ns

    def add(self, visit: "Visit", name: str) -> None:
        """A call of the hops of this name has ended."""
        new = self._new
        if visit.clock is None and not visit.backoff_ns:
            # Every hop with a deadline passes here.
            new.append((name, visit.begun_ns, visit.end_ns))
        else:
            new.append(took(visit, name, visit.end_ns))
        if len(new) > FOLD_AT:
            self._fold()

    def _fold(self) -> None:
        new, self._new = self._new, []
        for each in new:
            call = each if isinstance(each, Took) else Took(each[0], each[1], each[2])
            self._spent.setdefault(call.name, Spent(call.name)).add(call)
            self._model_ns += max(call.ended_ns - max(call.began_ns, self._covered_ns), 0)
            self._covered_ns = max(call.ended_ns, self._covered_ns)

    def spent(self, elapsed_s: float, here: Took | None = None) -> list[Spent]:
        """Who took how much of the time so far, work among them. `here`: a call that is open, up to now."""
        self._fold()
        found = dict(self._spent)
        model_ns = self._model_ns
        if here is not None:
            model_ns += max(here.ended_ns - max(here.began_ns, self._covered_ns), 0)
            found[here.name] = _with(found.get(here.name), here)
        return [*found.values(), Spent(WORK, max(round(elapsed_s * NANOSECONDS) - model_ns, 0))]


def _with(spent: Spent | None, call: Took) -> Spent:
    both = Spent(call.name)
    if spent is not None:
        for name in Spent.__slots__:
            setattr(both, name, getattr(spent, name))
    both.add(call)
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
