"""What the budgets' tests share: small hand-made profiles, and recorded trajectories loaded without a store."""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets.profile import Hops, Profile, Trajectories, Works

WORDS = {"trace_id", "workload", "run", "session", "outcome", "span_id", "hop", "model", "work", "limit_hit"}
DEFAULTS: dict[str, Any] = {"complete": True, "outcome": "ok", "visit": 1, "duration_s": 0.0, "work_s": 0.0}
MAYBE = {"intervened", "streamed", "final", "n_is_chunks", "complete"}


def _table(table: type, rows: Sequence[dict[str, Any]]) -> Any:
    columns = {}
    for field in fields(table):
        missing = "" if field.name in WORDS else False if field.name in MAYBE else np.nan
        values = [row.get(field.name, DEFAULTS.get(field.name, missing)) for row in rows]
        kind: Any = object if field.name in WORDS else np.bool_ if field.name in MAYBE else np.float64
        if field.name in {"trajectory", "visit"}:
            kind = np.int64
        columns[field.name] = np.array(values, dtype=kind)
    return table(**columns)


def build(trajectories: Sequence[dict[str, Any]]) -> Profile:
    """Each trajectory: its columns, with `hops` and `works` as lists of columns.

    Where not given: a hop starts where the step before it ended, visits are counted, the duration is the end of the
    last step and work is what no hop covers.
    """
    rows, hop_rows, work_rows = [], [], []
    for index, given in enumerate(trajectories):
        row = {k: v for k, v in given.items() if k not in ("hops", "works", "steps")}
        steps = [("hop", h) for h in given.get("hops", [])] + [("work", w) for w in given.get("works", [])]
        steps = given.get("steps", steps)
        clock, visits, end, cover = 0.0, {}, 0.0, []
        for kind, columns in steps:
            step = {"trajectory": index, "started_s": clock, **columns}
            clock = step["started_s"] + step.get("duration_s", 0.0)
            end = max(end, clock)
            if kind == "hop":
                step.setdefault("hop", "chat")
                visits[step["hop"]] = visits.get(step["hop"], 0) + 1
                step.setdefault("visit", visits[step["hop"]])
                hop_rows.append(step)
                cover.append((step["started_s"], clock))
            else:
                step.setdefault("work", "tool")
                work_rows.append(step)
        row.setdefault("duration_s", end)
        row.setdefault("started_at", 1_700_000_000.0 + index)
        row.setdefault("work_s", row["duration_s"] - _covered(cover, row["duration_s"]))
        row.setdefault("trace_id", f"{index:032x}")
        rows.append(row)
    return Profile(_table(Trajectories, rows), _table(Hops, hop_rows), _table(Works, work_rows))


def _covered(intervals: list[tuple[float, float]], end: float) -> float:
    total, until = 0.0, 0.0
    for start, stop in sorted(intervals):
        total += max(min(stop, end) - max(start, until), 0.0)
        until = max(until, min(stop, end))
    return total


def _attributes(span: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for item in span.get("attributes", []):
        ((kind, value),) = item["value"].items()
        out[item["key"]] = int(value) if kind == "intValue" else value
    return out


def _recorded(line: str) -> dict[str, Any]:
    spans = [s for r in json.loads(line)["resourceSpans"] for sc in r["scopeSpans"] for s in sc["spans"]]
    root = next(s for s in spans if "parentSpanId" not in s)
    start = int(root["startTimeUnixNano"])
    attributes = _attributes(root)
    trajectory: dict[str, Any] = {
        "trace_id": root["traceId"],
        "run": attributes.get("tau2.run", ""),
        "session": attributes.get("gen_ai.conversation.id", ""),
        "started_at": start / 1e9,
        "duration_s": (int(root["endTimeUnixNano"]) - start) / 1e9,
        "outcome": "failed" if root["status"].get("code") in (2, "STATUS_CODE_ERROR") else "ok",
        "steps": [],
    }
    for span in sorted((s for s in spans if s is not root), key=lambda s: int(s["startTimeUnixNano"])):
        a = _attributes(span)
        step: dict[str, Any] = {
            "started_s": (int(span["startTimeUnixNano"]) - start) / 1e9,
            "duration_s": (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) / 1e9,
        }
        if a["gen_ai.operation.name"] == "chat":
            step |= {
                "model": a.get("gen_ai.request.model", ""),
                "input_tokens": a.get("gen_ai.usage.input_tokens", np.nan),
                "output_tokens": a.get("gen_ai.usage.output_tokens", np.nan),
                "streamed": bool(a.get("gen_ai.request.stream", False)),
                "ttft_s": a.get("gen_ai.response.time_to_first_chunk", np.nan),
            }
            more = step["output_tokens"] - 1
            step["tpot_s"] = (step["duration_s"] - step["ttft_s"]) / more if more > 0 else np.nan
            trajectory["steps"].append(("hop", step))
        else:
            trajectory["steps"].append(("work", {**step, "work": a["gen_ai.tool.name"]}))
    return trajectory


@pytest.fixture(scope="session")
def profile_of() -> Callable[[Sequence[dict[str, Any]]], Profile]:
    """`build`: a profile from trajectories written down as dictionaries."""
    return build


@pytest.fixture(scope="session")
def recorded(shared: Path) -> Callable[[str], Profile]:
    """A profile of a file of recorded trajectories, by the name it has before `.otlp.jsonl.gz`; read once a session."""
    seen: dict[str, Profile] = {}

    def load(name: str) -> Profile:
        if name not in seen:
            with gzip.open(shared / "data" / f"{name}.otlp.jsonl.gz", "rt") as lines:
                seen[name] = build([_recorded(line) for line in lines])
        return seen[name]

    return load


@pytest.fixture(scope="session")
def looping() -> Callable[..., Profile]:
    """An agent that loops, one to nine hops of about a second with a tool after each, in so many runs; seeded."""

    def make(n: int = 600, *, runs: int = 8, seed: int = 3) -> Profile:
        random = np.random.default_rng(seed)
        return build([_loop(random, f"r{index % runs}", f"s{index // 2}") for index in range(n)])

    return make


def _loop(random: np.random.Generator, run: str, session: str) -> dict[str, Any]:
    steps: list[tuple[str, dict[str, Any]]] = []
    for _ in range(min(int(random.geometric(0.35)), 9)):
        tokens = float(random.integers(20, 400))
        hop = {"model": "m", "input_tokens": float(random.integers(100, 4000)), "output_tokens": tokens}
        steps.append(("hop", {**hop, "duration_s": 0.3 + 0.004 * tokens * random.lognormal(0, 0.2)}))
        steps.append(("work", {"work": "tool", "duration_s": 0.1 * random.lognormal(0, 0.5)}))
    return {"run": run, "session": session, "steps": steps}
