"""What inference servers told of hops: durations of their own, never their clock, set against what the client waited.

    first_token (pace, where no TTFT was observed) = queue + prefill beyond `prompt` + outside the server + the rest

A stream whose first token never came (`hop_parts.never_came`) has its wait in first_token too.
The rest is what no server told, and what a server spent before the first token on neither queue nor prefill.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.blame.hop_parts import HopParts
from hopbudget.budgets.profile import Bools, Floats, Hops

_EPS_S: Final = 1e-3
"""Two clocks' durations of the same wait may differ by this much."""


@dataclass(frozen=True, slots=True)
class ServerParts:
    """Seconds of each hop by its inference server; NaN where it didn't tell, or contradicts what was observed."""

    queue: Floats
    prefill: Floats
    """Reading the prompt, beyond (or short of) the hop's `prompt` part."""
    outside: Floats
    """Between the client and the server, both ways; known for hops with a TTFT only."""


def by_server(hops: Hops, parts: HopParts) -> ServerParts:
    """What of `first_token` was queue, prefill and outside the server; of `pace` for other hops without a TTFT."""
    waited = ~np.isnan(hops.ttft_s)
    room = np.where(waited, hops.ttft_s, np.nan_to_num(hops.duration_s)) - parts.retries - parts.backoff
    inside = np.where(np.isnan(hops.server_ttft_s), hops.queue_s + hops.prefill_s, hops.server_ttft_s)
    least = np.fmax(np.nan_to_num(inside), np.nan_to_num(hops.queue_s) + np.nan_to_num(hops.prefill_s))
    right = least <= room + _EPS_S
    return ServerParts(
        queue=np.where(right, hops.queue_s, np.nan),
        prefill=np.where(right, hops.prefill_s - parts.prompt, np.nan),
        outside=np.where(right & waited, np.maximum(room - inside, 0.0), np.nan),
    )


def told(hops: Hops) -> Bools:
    """Of which hops the inference server told its queue or its prefill."""
    known: Bools = ~np.isnan(hops.queue_s) | ~np.isnan(hops.prefill_s)
    return known
