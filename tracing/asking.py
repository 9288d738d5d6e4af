"""What an agent can ask while it runs: how much is left, how it stands, what still fits. And what it can say: how many
steps it means to take.

Every answer is about the trajectory that runs now. Outside of one, without a deadline, or with deadlines switched off,
there is none: `math.inf` seconds, no sentence, None for all else. What only a plan knows is None without one, and while
more is left than its whole deadline. Nothing here raises but for a wrong argument.
"""

import math
from typing import Final, Literal, NamedTuple

from hopbudget.tracing import deadline as _deadline
from hopbudget.tracing import terms as _terms
from hopbudget.tracing.deadline import Deadline
from hopbudget.tracing.models import known_as
from hopbudget.tracing.plan import Plan

LEVELS: Final = (0.5, 0.8, 0.9, 0.95)
MOST_STEPS: Final = 8
"""`options` goes no further than this many steps."""
LEAST_TOKENS: Final = 20
"""Where fewer fit, the model is not told how many: no answer is that short."""
_HOUR_S: Final = 3600.0
SAME_S: Final = 1e-6
"""Deadlines that differ by less are the same."""


class Option(NamedTuple):
    """Something that the agent can do now, and the chance of the deadline with it."""

    action: Literal["stop_after", "max_tokens", "model"]
    """Stop after so many more hops; make the next hop the last, with so many tokens at most; the same on this model."""
    chance: float
    steps: int | None = None
    tokens: int | None = None
    model: str | None = None


def running() -> Deadline | None:
    """The deadline to go by; None where nothing runs, or deadlines are switched off."""
    found = _deadline.current()
    return None if found is None or _terms.off() else found


class Outlook(NamedTuple):
    """A plan, and where the trajectory that it is for stands in it."""

    plan: Plan
    visit: int
    """The hop that runs, else the one that would begin now."""
    elapsed_s: float
    """What of the plan's deadline is gone, whatever the trajectory's own is."""
    steps_left: float | None
    """Hops to come, `visit` included, by what the application says."""
    beyond: bool
    """More is left than the plan's whole deadline: it knows nothing of so much time."""


def outlook(of: Deadline | None) -> Outlook | None:
    """How a trajectory stands; None where neither it nor one around it has a plan."""
    while of is not None:
        plan = None if of.terms is None else of.terms.plan
        left_s = of.remaining_s()
        if plan is not None and left_s < math.inf:
            visit = max(of.visit, 1) if _deadline.hop() is not None else of.visit + 1
            left = None if of.hint is None else max(of.hint - visit + 1, 1.0)
            gone_s = plan.deadline_s - left_s
            return Outlook(plan, visit, max(gone_s, 0.0), left, gone_s < -SAME_S)
        of = of.outer
    return None


def remaining_s() -> float:
    """Seconds until the deadline: 0 once it has passed, `math.inf` where there is none."""
    found = _asked()
    return math.inf if found is None else max(found.remaining_s(), 0.0)


def chance(*, steps_left: float | None = None) -> float | None:
    """P(this trajectory meets its deadline, now), from 0 to 1; 0 once it has passed.

    A hop that runs counts as one that begins now, so that inside of one it is rather too low. `steps_left`: hops still
    to come, that which runs included, if that is known here; else what `hint` said. None where the plan can't tell yet
    more than `base_rate` does, or knows nothing of so much time.
    """
    return chance_of(_asked(), steps_left)


def chance_of(found: Deadline | None, steps_left: float | None = None) -> float | None:
    """The chance of this trajectory."""
    if found is None:
        return None
    if found.remaining_s() <= 0:
        return 0.0
    seen = _known(found)
    if seen is None:
        return None
    return seen.plan.chance(seen.visit, seen.elapsed_s, seen.steps_left if steps_left is None else steps_left)


def base_rate() -> float | None:
    """Share of the recorded trajectories that met the plan's deadline: what to say without looking."""
    seen = _known(_asked())
    return None if seen is None else seen.plan.base_rate


def steps_left(at: float = 0.9) -> int | None:
    """How many more hops fit in what is left, each whole, with this chance; a hop that runs is one of them."""
    _share("at", at)
    seen = _known(_asked())
    return None if seen is None else seen.plan.steps_left(seen.elapsed_s, at)


def max_tokens(hop: str | None = None, *, model: str | None = None, at: float = 0.9) -> int | None:
    """The most output tokens to ask for in a hop that begins now: what fits with this chance, and the plan's cap.

    Of the hop that runs and its model unless named. At least 1, because clients take no less.
    """
    _share("at", at)
    seen = outlook(_asked())
    if seen is None:
        return None
    inside = _deadline.hop()
    hop = hop or (None if inside is None else inside.name)
    cap = None if hop is None else seen.plan.max_tokens(hop)
    fits = _fitting(seen, model, at)
    known = [tokens for tokens in (cap, fits) if tokens is not None]
    return max(min(known), 1) if known else None


def hint(*, steps_left: float) -> None:
    """Say how many hops are still to come; one that runs is not counted. What is said last holds.

    It makes `chance` worth more. Raises TypeError or ValueError unless it is a number of 0 or more.
    """
    if not isinstance(steps_left, (int, float)) or isinstance(steps_left, bool):
        raise TypeError(f"steps_left is a number of hops, not {steps_left!r}")
    if not 0 <= steps_left < math.inf:
        raise ValueError(f"steps_left is a number of hops, 0 or more, not {steps_left!r}")
    found = _asked()
    if found is not None:
        found.hint = found.visit + steps_left


def options() -> tuple[Option, ...]:
    """What the agent can do now, and the chance of each, as far as the plan knows it."""
    found = _asked()
    seen = _known(found)
    if seen is None or found is None or found.remaining_s() <= 0:
        return ()
    plan, visit, elapsed_s = seen.plan, seen.visit, seen.elapsed_s
    stops = ((k, plan.chance(visit, elapsed_s, float(k))) for k in range(1, MOST_STEPS + 1))
    offered = [Option("stop_after", told, steps=k) for k, told in stops if told is not None]
    inside = _deadline.hop()
    asked = (None if inside is None else inside.model) or only_model(plan)
    own = None if asked is None else model_in(plan, asked)
    if own is not None:
        caps = ((level, plan.tokens_left(own, elapsed_s, level)) for level in LEVELS)
        offered += [Option("max_tokens", level, tokens=n, model=own) for level, n in caps if n]
    others = ((model, plan.tokens_left(model, elapsed_s, 0.9)) for model in _models(plan) if model != own)
    return (*offered, *(Option("model", 0.9, tokens=n, model=model) for model, n in others if n))


def remaining_prompt() -> str:
    """A sentence for the model about the time that is left and what fits in it; empty where there is no deadline.

    The time is rounded down: to seconds up to 120, to half minutes up to two hours, to half hours up to two days.
    """
    left_s = remaining_s()
    if math.isinf(left_s):
        return ""
    if left_s <= 0:
        return "The time for this task is up: give the answer you have now, in one short paragraph."
    said = f"{_spoken(left_s)} left for this task"
    steps, seen = steps_left(), _known(running())
    fitting = None if seen is None else _fitting(seen, None, 0.9)
    if fitting is not None and fitting < LEAST_TOKENS and (steps is None or steps <= 1):
        return f"{said}: answer at once, with what you have."
    tokens = None if fitting is None else max_tokens()
    if steps is None:
        return f"{said}{'' if tokens is None else f', in which at most {tokens} tokens fit'}."
    if steps <= 1:
        fits = "" if tokens is None else f" in at most {tokens} tokens"
        return f"{said}: take no further step, and give the answer you have{fits}."
    return f"{said}: at most {steps} more steps fit, the final answer included."


def _asked() -> Deadline | None:
    """The deadline to go by, after those who wait for pressure were told."""
    found = around = running()
    while around is not None:
        if around.pressure is not None:
            around.pressure(around)
        around = around.outer
    return found


def _known(of: Deadline | None) -> Outlook | None:
    """How a trajectory stands, where its plan knows of as much time as is left."""
    seen = outlook(of)
    return None if seen is None or seen.beyond else seen


def _fitting(seen: Outlook, model: str | None, at: float) -> int | None:
    """How many output tokens fit in what is left; of the model of the hop that runs unless named."""
    if seen.beyond:
        return None
    inside = _deadline.hop()
    model = model or (None if inside is None else inside.model) or only_model(seen.plan)
    return None if model is None else seen.plan.tokens_left(model_in(seen.plan, model), seen.elapsed_s, at)


def _spoken(seconds: float) -> str:
    if seconds < 1:
        return "Less than a second is"
    if seconds < 2:
        return "About 1 second is"
    if seconds <= 120:
        return f"About {math.floor(seconds)} seconds are"
    if seconds <= 2 * _HOUR_S:
        return f"About {_halves(seconds / 60)} minutes are"
    if seconds <= 48 * _HOUR_S:
        return f"About {_halves(seconds / _HOUR_S)} hours are"
    return "More than 2 days are"


def _halves(size: float) -> str:
    """Rounded down to a half."""
    return f"{math.floor(size * 2) / 2:g}"


def _models(plan: Plan) -> tuple[str, ...]:
    found = plan.fingerprint.get("models")
    return tuple(word for word in found if isinstance(word, str)) if isinstance(found, (list, tuple)) else ()


def model_in(plan: Plan, model: str) -> str:
    """What the plan calls this model."""
    return known_as(model, _models(plan)) or model


def only_model(plan: Plan) -> str | None:
    """The model that all hops of the plan run on; None where there are several."""
    models = _models(plan)
    return models[0] if len(models) == 1 else None


def _share(what: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{what} is a chance between 0 and 1, not {value!r}")
    if not 0 < value < 1:
        raise ValueError(f"{what} is a chance between 0 and 1, not {value!r}")
