"""What the application saw of its trajectories and hops, against what is stored of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import hopbudget as hb
from bench.soak.limits_agent import Agent
from hopbudget.store import queries
from hopbudget.store.duck import Store

Ends = Counter[tuple[str, str]]
"""How many hops of a name ended with an outcome."""


@dataclass
class Stored:
    """What the store holds, by trajectory."""

    outcomes: dict[int, str] = field(default_factory=dict)
    hops: dict[int, Ends] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)


def compare(agents: Sequence[Agent], store: Store) -> list[str]:
    """What is missing or unlike, in sentences."""
    stored = _read(store)
    outcomes = Counter(agent.came_out for agent in agents)
    print(f"    {sum(sum(agent.seen.values()) for agent in agents):,} hops; trajectories {dict(outcomes)}")
    broken = [f"{n} spans were dropped: {reason}" for reason, n in stored.dropped.items()]
    missing = [agent.number for agent in agents if agent.number not in stored.outcomes]
    if missing:
        broken.append(f"{len(missing)} trajectories are not in the store, {missing[0]} among them")
    unlike: Counter[str] = Counter()
    for agent in agents:
        outcome = stored.outcomes.get(agent.number, agent.came_out)
        if outcome != agent.came_out:
            unlike[f"a trajectory that was {agent.came_out} is stored as {outcome}"] += 1
        unlike.update(_unlike(agent.seen, stored.hops.get(agent.number, Counter())))
    return broken + [f"{what} ({n} times)" for what, n in sorted(unlike.items())]


def _unlike(seen: Ends, stored: Ends) -> list[str]:
    lost, new = seen - stored, stored - seen
    # A limit ended it, and its caller cancelled before its stream was closed: it saw that, and both are true.
    for hop, how in list(lost):
        both = min(lost[hop, how], new[hop, "timed_out"]) if how == "cancelled" else 0
        lost[hop, how] -= both
        new[hop, "timed_out"] -= both
    return [f"a hop `{hop}` was {how}, and is not stored as that" for hop, how in +lost] + [
        f"a hop `{hop}` is stored as {how}, and was not that" for hop, how in +new
    ]


def _read(store: Store) -> Stored:
    hb.flush()
    store.drain()
    found = Stored()
    number = "t.attributes['soak.number']::BIGINT"
    with store.reading() as con:
        found.dropped = queries.drops(con)
        found.outcomes = dict(
            con.execute(f"SELECT {number}, t.outcome FROM trajectories t WHERE t.workload = 'soak'").fetchall()
        )
        for trajectory, hop, outcome, n in con.execute(
            f"SELECT {number}, h.hop, h.outcome, count(*) "
            "FROM hops h JOIN trajectories t USING (trace_id, root_span_id) GROUP BY ALL"
        ).fetchall():
            found.hops.setdefault(trajectory, Counter())[hop, outcome] = n
    return found
