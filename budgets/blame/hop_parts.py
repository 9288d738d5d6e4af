"""What one hop's seconds went to. The parts of a hop add up to its duration, whatever was observed of it.

    prompt       b * prompt tokens, by the model's line of TTFT (of duration, where no TTFT was observed)
    retries      attempts that were given up before the one that answered, without the waiting between them
    backoff      the waiting between attempts
    first_token  the rest of TTFT
    answers      c * output tokens, by the model's line of duration
    stalls       by how much gaps of the stream passed its stall threshold, less the client's own time
    client_lag   how late the client's event loop ran, or its reading, where that took most of the stream
    pace         the rest of the duration

What was not observed of a hop is 0 there and stays in `first_token` (before the first token) or `pace` (after it).
A stream that ended before its first token came (`never_came`) is a wait as a whole: it has no answer and no pace.

Where the inference server told its own times, `server_parts` says how much of `first_token` (of `pace`, where no TTFT
was observed) was queue, prefill beyond the `prompt` part, and outside the server.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.expectations.expectation import (
    OWN_LINE,
    Line,
    fit_line,
    fit_lines,
    known_prompts,
    prompt_tokens,
    unlike,
)
from hopbudget.budgets.numbers.quantiles import FINISHED, among
from hopbudget.budgets.profile import Bools, Floats, Hops

READER_BOUND: Final = 0.5
"""A stream of which the reader's own time is more than this share was held up by the reader."""


@dataclass(frozen=True, slots=True)
class HopParts:
    """The seconds of each hop, one entry a hop."""

    prompt: Floats
    retries: Floats
    backoff: Floats
    first_token: Floats
    answers: Floats
    stalls: Floats
    client_lag: Floats
    pace: Floats


def split(hops: Hops) -> HopParts:
    """The parts of hops, with lines fitted to these hops."""
    return split_by(hops, fit_lines(hops), first_token_lines(hops))


def first_token_lines(hops: Hops) -> dict[str, Line]:
    """TTFT = a + b * prompt tokens by model, with the least absolute deviations; only of models with enough of them."""
    usable = among(hops.outcome, FINISHED) & ~np.isnan(hops.ttft_s) & ~np.isnan(prompt_tokens(hops))
    models = hops.model.astype(str)
    lines = {}
    for model in np.unique(models[usable]).tolist():
        own = usable & (models == model)
        if np.count_nonzero(own) >= OWN_LINE and unlike(prompt_tokens(hops)[own]):
            waited_s = hops.ttft_s[own] - _before_the_answering_attempt(hops)[own]
            lines[model] = fit_line(waited_s, prompt_tokens(hops)[own], np.zeros(np.count_nonzero(own)))
    return lines


def never_came(hops: Hops) -> Bools:
    """Which streams ended, cut off or failed, while they waited for a first token that was not to come.

    Where no stream has a first token none was recorded, and only a limit on it tells that it didn't come.
    """
    recorded = not bool(np.isnan(hops.ttft_s).all())
    without: Bools = hops.streamed & np.isnan(hops.ttft_s) & ~(hops.output_tokens > 0)
    told: Bools = without & ~among(hops.outcome, FINISHED) & (recorded | (hops.limit_hit == "first_token"))
    return told


def split_by(hops: Hops, lines: Mapping[str, Line], first_lines: Mapping[str, Line]) -> HopParts:
    """The parts of hops by given lines of duration and of TTFT; a model without a line has no such part."""
    seconds = np.nan_to_num(hops.duration_s)
    waited, cut = ~np.isnan(hops.ttft_s), never_came(hops)
    ttft = np.where(waited, hops.ttft_s, 0.0)
    counted = ~np.isnan(hops.output_tokens)
    backoff = np.minimum(np.nan_to_num(hops.backoff_s), np.where(waited, ttft, seconds))
    retries = np.where(waited, np.maximum(_before_the_answering_attempt(hops) - backoff, 0.0), 0.0)
    by_prompt = np.where(
        waited | cut,
        _slope(hops, first_lines, "per_prompt_token_s"),
        _slope(hops, lines, "per_prompt_token_s") * counted,
    )
    prompt = by_prompt * known_prompts(hops)
    answers = _slope(hops, lines, "per_output_token_s") * np.where(counted & ~cut, hops.output_tokens, 0.0)
    streaming = np.maximum(seconds - ttft, 0.0)
    client = np.minimum(_client_s(hops, streaming), seconds)
    stalls = np.where(cut, 0.0, np.clip(np.nan_to_num(hops.stalled_s) - client, 0.0, streaming))
    first_token = np.where(waited, ttft - retries - backoff - prompt, 0.0)
    first_token = np.where(cut, seconds - retries - backoff - prompt - client, first_token)
    named = prompt + retries + backoff + first_token + answers + stalls + client
    pace = np.where(cut, 0.0, seconds - named)
    return HopParts(prompt, retries, backoff, first_token, answers, stalls, client, pace)


def _before_the_answering_attempt(hops: Hops) -> Floats:
    """Seconds from issue to the beginning of the attempt that answered; 0 where that is not known."""
    before: Floats = np.nan_to_num(np.maximum(hops.ttft_s - hops.attempt_ttft_s, 0.0))
    return before


def _client_s(hops: Hops, streaming_s: Floats) -> Floats:
    reading = np.nan_to_num(hops.consumer_s)
    held_up = np.where(reading > READER_BOUND * streaming_s, reading, 0.0)
    client: Floats = np.maximum(np.nan_to_num(hops.client_lag_s), held_up)
    return client


def _slope(hops: Hops, lines: Mapping[str, Line], name: str) -> Floats:
    return np.array([getattr(lines[m], name) if m in lines else 0.0 for m in hops.model.astype(str)], dtype=np.float64)
