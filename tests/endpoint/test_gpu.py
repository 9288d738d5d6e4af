"""The model of the GPU: seeded, pure, and slower for longer prompts, more load and bigger models."""

import itertools
import statistics

from hypothesis import given
from hypothesis import strategies as st

from hopbudget.endpoint.gpu import GPUS, Gpu, answer_tokens, dice, first_token_s, gaps_s

MODELS = st.sampled_from(sorted(GPUS))
SEEDS = st.integers(0, 2**32)


def first(gpu: Gpu, seed: int, fresh: int = 100, concurrency: int = 1, request: int = 1) -> float:
    return first_token_s(gpu, dice(seed, gpu.model, request), fresh_tokens=fresh, concurrency=concurrency)


def gaps(gpu: Gpu, seed: int, concurrency: int = 1) -> list[float]:
    return list(itertools.islice(gaps_s(gpu, dice(seed, gpu.model, 1), concurrency=concurrency), 20))


@given(MODELS, SEEDS)
def test_the_same_request_of_the_same_server_gets_the_same_times(model: str, seed: int) -> None:
    gpu = GPUS[model]
    assert first(gpu, seed) == first(gpu, seed)
    assert gaps(gpu, seed) == gaps(gpu, seed)


@given(MODELS, SEEDS, st.integers(0, 10_000), st.integers(1, 10_000))
def test_a_longer_prompt_waits_longer_for_its_first_token(model: str, seed: int, fresh: int, more: int) -> None:
    gpu = GPUS[model]
    assert first(gpu, seed, fresh) < first(gpu, seed, fresh + more)


@given(MODELS, SEEDS, st.integers(1, 200), st.integers(1, 200))
def test_load_stretches_first_token_and_pace(model: str, seed: int, concurrency: int, more: int) -> None:
    gpu = GPUS[model]
    assert first(gpu, seed, concurrency=concurrency) < first(gpu, seed, concurrency=concurrency + more)
    assert sum(gaps(gpu, seed, concurrency)) < sum(gaps(gpu, seed, concurrency + more))


@given(MODELS, SEEDS)
def test_times_are_positive_and_answers_are_not_empty(model: str, seed: int) -> None:
    gpu = GPUS[model]
    assert first(gpu, seed) > 0
    assert min(gaps(gpu, seed)) > 0
    assert answer_tokens(gpu, dice(seed, model, 1)) >= 1


def test_the_median_first_token_is_the_models_own() -> None:
    gpu = GPUS["sim-large"]
    many = [first(gpu, seed=0, fresh=0, request=number) for number in range(2001)]
    assert abs(statistics.median(many) / gpu.first_token_s - 1) < 0.05


def test_requests_and_seeds_differ() -> None:
    gpu = GPUS["sim-small"]
    assert len({first(gpu, seed=0, request=number) for number in range(50)}) == 50
    assert len({first(gpu, seed=seed) for seed in range(50)}) == 50
