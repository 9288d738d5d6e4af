"""What trajectories cost, by the prices of `hopbudget.toml`, and of how many that is known."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from hopbudget.config.configuring import Config, find, load
from hopbudget.store.costs import Charged


def prices() -> Config | None:
    """The configuration at hand, if it says prices."""
    path = find()
    config = load(path) if path is not None else None
    return config if config is not None and config.prices else None


def costs(rows: Sequence[Charged], config: Config) -> dict[str, Any]:
    """Plain quantiles of the cost of trajectories that came well, the total, what each hop name took, and coverage.

    A trajectory's cost is known where that of every hop is; `total` is of all hops whose cost is known, so it is at
    least that much.
    """
    whole: dict[int, float] = {}
    unknown: set[int] = set()
    by_hop: dict[str, float] = {}
    no_price: Counter[str] = Counter()
    priced = no_tokens = 0
    came = {row.trajectory for row in rows if row.came_well}
    for row in rows:
        price = config.price(row.model)
        cost = price.cost(row.input_tokens, row.output_tokens, row.cached_tokens) if price is not None else None
        no_tokens += row.hops - row.counted
        if cost is None:
            no_price[row.model] += row.counted
        else:
            priced += row.counted
            by_hop[row.hop] = by_hop.get(row.hop, 0.0) + cost
            whole[row.trajectory] = whole.get(row.trajectory, 0.0) + cost
        if cost is None or row.counted < row.hops:
            unknown.add(row.trajectory)
    known = np.array([cost for trajectory, cost in whole.items() if trajectory in came - unknown])
    levels = np.quantile(known, (0.5, 0.9, 0.95, 0.99)).tolist() if len(known) else [None] * 4
    total = sum(by_hop.values())
    return {
        "trajectory": {
            "n": len(known),
            "mean": float(known.mean()) if len(known) else None,
            **dict(zip(("p50", "p90", "p95", "p99"), levels, strict=True)),
        },
        "trajectories": len({row.trajectory for row in rows}),
        "came_well": len(came),
        "total": total,
        "by_hop": [
            {"hop": hop, "cost": cost, "share": cost / total if total else None}
            for hop, cost in sorted(by_hop.items(), key=lambda item: -item[1])
        ],
        "hops": sum(row.hops for row in rows),
        "priced": priced,
        "without_tokens": no_tokens,
        "without_price": {model: n for model, n in no_price.most_common() if n},
        "prices_from": str(config.path),
    }
