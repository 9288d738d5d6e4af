"""What befalls the demo's agent: how often it has to look again, how long it writes, what is slow this time.

A real agent learns such things as it goes. Here they are drawn beforehand from a seed, so that every run of the
demo has the same share of trajectories that are late, each for a reason that can be found again.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

Trouble = Literal["", "looks again and again", "long answer", "slow first token", "slow tool", "breaks off"]

SHARES: Final[Mapping[Trouble, float]] = {
    "looks again and again": 0.042,
    "long answer": 0.017,
    "slow first token": 0.017,
    "slow tool": 0.017,
    "breaks off": 0.008,
}
"""Which share of trajectories each trouble befalls, rounded to whole trajectories."""

TOPICS: Final = (
    "heat pumps in old houses",
    "sodium-ion batteries",
    "night trains across Europe",
    "soil carbon on small farms",
    "city trees and summer heat",
    "reusing water in dry towns",
    "wind turbines and birds",
    "repair instead of new",
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and what will happen on the way to its answer; times in seconds, lengths in tokens."""

    number: int
    topic: str
    trouble: Trouble = ""
    rounds: int = 1
    """How often it searches before the findings hold."""
    sources: int = 2
    """How many pages it reads at once in each round."""
    search_s: float = 0.3
    fetch_s: float = 0.15
    answer_tokens: int = 38
    slow_hop: str = ""
    """The hop whose first token is late."""
    first_token_s: float = 0.0
    """And how late."""

    def knobs(self, hop: str) -> dict[str, str]:
        """Headers by which the simulated endpoint lets this trouble befall this hop."""
        if self.trouble == "breaks off" and hop == "answer":
            return {"x-hopbudget-row": "A6"}
        if hop == self.slow_hop:
            return {"x-hopbudget-ttft": f"{self.first_token_s:.3f}"}
        return {}

    def seed(self, hop: str, visit: int) -> int:
        """A number for the simulated dice, the same in every run of the demo."""
        return random.Random(f"{self.number}/{hop}/{visit}").randrange(2**31)


def turns(count: int, seed: int = 0) -> list[Turn]:
    """`count` questions, troubles mixed in among them in a fixed order."""
    rng = random.Random(seed)
    troubles: list[Trouble] = [trouble for trouble, share in SHARES.items() for _ in range(round(share * count))]
    none: Trouble = ""
    troubles.extend(none for _ in range(count - len(troubles)))
    rng.shuffle(troubles)
    return [_turn(number, trouble, rng) for number, trouble in enumerate(troubles)]


def _turn(number: int, trouble: Trouble, rng: random.Random) -> Turn:
    turn = Turn(
        number,
        topic=TOPICS[number % len(TOPICS)],
        trouble=trouble,
        rounds=2 if not trouble and rng.random() < 0.15 else 1,
        sources=rng.choice((2, 2, 3)),
        search_s=0.3 * math.exp(rng.gauss(0.0, 0.25)),
        fetch_s=0.15 * math.exp(rng.gauss(0.0, 0.25)),
        answer_tokens=round(38 * math.exp(rng.gauss(0.0, 0.15))),
    )
    match trouble:
        case "looks again and again":
            return replace(turn, rounds=rng.choice((3, 4)))
        case "long answer":
            return replace(turn, answer_tokens=turn.answer_tokens + rng.randrange(80, 120))
        case "slow first token":
            return replace(
                turn, slow_hop=rng.choice(("plan", "outline", "answer")), first_token_s=rng.uniform(2.6, 3.2)
            )
        case "slow tool":
            return replace(turn, search_s=rng.uniform(2.6, 3.4))
        case _:
            return turn
