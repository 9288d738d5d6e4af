"""The model of a GPU: when a first token comes and how fast the rest follow, by model, prompt and load.

Pure functions of their arguments and a random generator that `dice` seeds: the same request of the same
server gets the same times.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Gpu:
    """How one model behaves on its hardware. `spread` is the sigma of a log-normal factor."""

    model: str
    first_token_s: float
    """Median wait for the first token of an empty prompt on an idle server."""
    prompt_token_s: float
    """Added wait for each prompt token that is not cached."""
    token_s: float
    """Median time between tokens on an idle server."""
    spread: float
    token_spread: float
    batch: int
    """How many requests at once double the idle times."""
    answer_tokens: int
    """Median length of an answer whose length nobody asked for."""
    reasoning_tokens: int = 0


GPUS: Final[dict[str, Gpu]] = {
    gpu.model: gpu
    for gpu in (
        Gpu("sim-small", 0.06, 0.00002, 0.008, 0.20, 0.15, 64, 60),
        Gpu("sim-large", 0.15, 0.00005, 0.020, 0.25, 0.15, 32, 120),
        Gpu("sim-reasoner", 0.20, 0.00005, 0.015, 0.25, 0.15, 32, 90, reasoning_tokens=60),
    )
}
"""Every model that the endpoint serves."""


def dice(seed: int, model: str, request: int | str) -> random.Random:
    """The random generator of one request, by the server's seed, the model and the request's own name."""
    return random.Random(f"{seed}/{model}/{request}")


def load(gpu: Gpu, concurrency: int) -> float:
    """The factor by which `concurrency` requests at once (this one included) stretch the idle times."""
    return 1.0 + max(0, concurrency - 1) / gpu.batch


def first_token_s(gpu: Gpu, rng: random.Random, *, fresh_tokens: int, concurrency: int) -> float:
    """Seconds from the request's arrival to its first token; `fresh_tokens` of the prompt are not cached."""
    prefill_s = gpu.first_token_s + gpu.prompt_token_s * fresh_tokens
    return prefill_s * load(gpu, concurrency) * _factor(rng, gpu.spread)


def gaps_s(gpu: Gpu, rng: random.Random, *, concurrency: int) -> Iterator[float]:
    """Seconds between one token and the next, without end."""
    typical_s = gpu.token_s * load(gpu, concurrency) * _factor(rng, gpu.spread / 2)
    while True:
        yield typical_s * _factor(rng, gpu.token_spread)


def answer_tokens(gpu: Gpu, rng: random.Random) -> int:
    """How long the model feels like writing: log-normal about the model's median, at least 1."""
    return max(1, round(gpu.answer_tokens * _factor(rng, 0.4)))


def _factor(rng: random.Random, sigma: float) -> float:
    return math.exp(sigma * rng.gauss(0.0, 1.0))
