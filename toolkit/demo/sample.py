"""Sample data: trajectories of two made-up agents as OTLP/JSON lines, on the simulated endpoint's model of a GPU.

Nothing is run: what the endpoint would have done is drawn from `endpoint.gpu`, and what befell a trajectory is known,
so that an analysis can be held against it. It comes into a store by the same door as anybody's spans.
"""

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from hopbudget.endpoint import gpu
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.gaps import GapRecorder

Trouble = Literal[
    "slow prefill",
    "slow decode",
    "stall",
    "slow tool",
    "retries",
    "extra visits",
    "longer answers",
    "longer prompt",
    "client lag",
    "breaks off",
]
TROUBLES: Final[tuple[Trouble, ...]] = get_args(Trouble)
WORKLOADS: Final = ("research", "support")
_NS: Final = 1_000_000_000
_DAY_S: Final = 86_400.0
_ROOT: Final = 1


@dataclass(frozen=True, slots=True)
class Run:
    """One trajectory to be: when, for whom, and what befalls it."""

    number: int
    workload: str = "research"
    at_s: float = 1_767_225_600.0
    trouble: Trouble | None = None
    hop: str = "answer"
    """Where the trouble befalls it, if it is of a hop."""
    rounds: int = 1
    concurrency: int = 4
    session: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


def runs(count: int, until_s: float, days: float = 7.0, seed: int = 0) -> list[Run]:
    """`count` trajectories of the days before `until_s` (seconds since the Unix epoch), some with a trouble."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        at_s = until_s - 60.0 - days * _DAY_S * (1 - (number + rng.random()) / count)
        busy = 0.5 - 0.5 * math.cos(2 * math.pi * (at_s % _DAY_S) / _DAY_S)
        version = "1.5" if at_s > until_s - 0.4 * days * _DAY_S else "1.4"
        region = rng.choice(("eu", "eu", "us"))
        workload = rng.choice(("research", "research", "research", "support"))
        made.append(
            Run(
                number,
                workload=workload,
                at_s=at_s,
                trouble=_befalls(rng, workload, version, region),
                hop="answer",
                rounds=rng.choice((1, 1, 1, 1, 2, 2, 3)),
                concurrency=1 + round(24 * busy * rng.random()),
                session=f"session-{number // 3}",
                attributes={
                    "service.version": version,
                    "app.region": region,
                    "app.tier": rng.choice(("free", "free", "pro")),
                },
            )
        )
    return made


def _befalls(rng: random.Random, workload: str, version: str, region: str) -> Trouble | None:
    if rng.random() < 0.012:
        return "breaks off"
    if rng.random() > (0.16 if region == "us" else 0.08):
        return None
    if version == "1.5" and rng.random() < 0.5:
        return "extra visits" if workload == "research" else "longer answers"
    return rng.choice([trouble for trouble in TROUBLES if trouble not in ("breaks off", "longer prompt")])


def lines(given: Sequence[Run], seed: int = 0) -> Iterator[bytes]:
    """One OTLP export request a trajectory, as a line of JSON."""
    for run in given:
        trajectory = _Trajectory(run, seed)
        trajectory.play()
        yield json.dumps(trajectory.request(), separators=(",", ":")).encode() + b"\n"


class _Trajectory:
    """Spans of one trajectory, step after step on one clock."""

    def __init__(self, run: Run, seed: int) -> None:
        self._run = run
        self._seed = seed
        self._rng = random.Random(f"{seed}/{run.number}")
        self._trace_id = f"{random.Random(f'{seed}/{run.number}/trace').getrandbits(128) or 1:032x}"
        self._zero_ns = round(run.at_s * _NS)
        self._clock_s = 0.0
        self._spans: list[dict[str, Any]] = []
        self._visits: dict[str, int] = {}
        self._outcome = "ok"

    def play(self) -> None:
        """Let it run."""
        run = self._run
        if run.workload == "support":
            self._hop("classify", "sim-small", prompt=900, tokens=12)
            self._tool("lookup", 0.25)
            self._hop("answer", "sim-small", prompt=2400, tokens=90, final=True)
            return
        self._hop("plan", "sim-large", prompt=1500, tokens=45)
        rounds = run.rounds + (6 if run.trouble == "extra visits" else 0)
        for number in range(rounds):
            self._tool("search", 0.35)
            self._hop("read", "sim-small", prompt=3000 + 1500 * number, tokens=60)
        self._hop("answer", "sim-large", prompt=5000, tokens=120, final=True)

    def request(self) -> dict[str, Any]:
        """The export request."""
        run = self._run
        root = {
            v.OPERATION: v.INVOKE_AGENT,
            v.AGENT_NAME: run.workload,
            v.WORKLOAD: run.workload,
            v.CONVERSATION_ID: run.session or f"session-{run.number}",
            v.OUTCOME: self._outcome,
            **{key: value for key, value in run.attributes.items() if not key.startswith("service.")},
        }
        resource = {"service.name": "sample-agents", **run.attributes}
        spans = [self._span(_ROOT, f"invoke_agent {run.workload}", 0.0, self._clock_s, root), *self._spans]
        scope = {"scope": {"name": v.SCOPE_NAME}, "spans": spans}
        return {
            "resourceSpans": [
                {
                    "resource": {
                        "attributes": _attributes({k: x for k, x in resource.items() if k.startswith("service.")})
                    },
                    "scopeSpans": [scope],
                }
            ]
        }

    def _tool(self, name: str, usual_s: float) -> None:
        took_s = usual_s * math.exp(self._rng.gauss(0.0, 0.25))
        if self._run.trouble == "slow tool" and not any(span["name"] == f"execute_tool {name}" for span in self._spans):
            took_s += self._rng.uniform(5.0, 8.0)
        self._add(f"execute_tool {name}", took_s, {v.OPERATION: v.EXECUTE_TOOL, v.TOOL_NAME: name})
        self._clock_s += 0.01

    def _hop(self, name: str, model: str, *, prompt: int, tokens: int, final: bool = False) -> None:
        if self._outcome != "ok":
            return
        visit = self._visits[name] = self._visits.get(name, 0) + 1
        trouble = self._run.trouble if name == self._run.hop and visit == 1 else None
        dice = gpu.dice(self._seed, model, f"{self._run.number}/{name}/{visit}")
        card = gpu.GPUS[model]
        tokens = max(2, round(tokens * math.exp(dice.gauss(0.0, 0.2)))) * (5 if trouble == "longer answers" else 1)
        prompt = round(prompt * math.exp(dice.gauss(0.0, 0.15))) + (140_000 if trouble == "longer prompt" else 0)
        first_s = gpu.first_token_s(card, dice, fresh_tokens=prompt, concurrency=self._run.concurrency)
        if trouble == "slow prefill":
            first_s += dice.uniform(5.0, 8.0)
        attempts, backoff_s, lost_s = 1, 0.0, 0.0
        if trouble == "retries":
            attempts, backoff_s, lost_s = 3, dice.uniform(2.0, 3.0), dice.uniform(3.0, 4.0)
        spacing = gpu.gaps_s(card, dice, concurrency=self._run.concurrency)
        gaps = [next(spacing) for _ in range(tokens - 1)]
        if trouble == "slow decode":
            gaps = [4 * gap for gap in gaps]
        if trouble == "stall":
            gaps[len(gaps) // 2] += dice.uniform(5.0, 8.0)
        consumer_s, lag_s = 0.0005 * len(gaps), dice.uniform(0.001, 0.004)
        if trouble == "client lag":
            busy_s = dice.uniform(5.0, 8.0) / len(gaps)
            gaps = [gap + busy_s for gap in gaps]
            consumer_s += busy_s * len(gaps)
            lag_s = 4 * busy_s
        outcome = "ok"
        if trouble == "breaks off":
            gaps = gaps[: len(gaps) // 3]
            outcome = self._outcome = "failed"
        ttft_s = lost_s + backoff_s + first_s
        e2e_s = ttft_s + sum(gaps)
        recorder = GapRecorder()
        for gap in gaps:
            recorder.add(round(gap * 1e6))
        self._add(
            f"chat {model}",
            e2e_s,
            {
                v.OPERATION: v.CHAT,
                v.REQUEST_MODEL: model,
                v.REQUEST_STREAM: True,
                v.HOP: name,
                **({v.FINAL: True} if final else {}),
                v.OUTCOME: outcome,
                **({v.ERROR_TYPE: "cut_off"} if outcome != "ok" else {}),
                v.INPUT_TOKENS: prompt,
                v.OUTPUT_TOKENS: len(gaps) + 1,
                v.N_TOKENS: len(gaps) + 1,
                v.N_SOURCE: "usage",
                v.CHUNKS: len(gaps) + 1,
                v.TTFT: ttft_s,
                v.TTFA: ttft_s,
                v.ATTEMPT_TTFT: first_s,
                v.TPOT: sum(gaps) / len(gaps),
                v.E2E: e2e_s,
                v.ITL: recorder.encode(),
                v.ATTEMPTS: attempts,
                v.BACKOFF: backoff_s,
                v.CONSUMER: consumer_s,
                v.CLIENT_LAG: lag_s,
            },
        )

    def _add(self, name: str, took_s: float, attributes: dict[str, Any]) -> None:
        end_s = self._clock_s + took_s
        self._spans.append(self._span(_ROOT + 1 + len(self._spans), name, self._clock_s, end_s, attributes))
        self._clock_s = end_s

    def _span(self, number: int, name: str, start_s: float, end_s: float, attributes: dict[str, Any]) -> dict[str, Any]:
        return {
            "traceId": self._trace_id,
            "spanId": self._span_id(number),
            "parentSpanId": self._span_id(_ROOT) if number != _ROOT else "",
            "name": name,
            "kind": 3 if name.startswith("chat") else 1,
            "startTimeUnixNano": str(self._zero_ns + round(start_s * _NS)),
            "endTimeUnixNano": str(self._zero_ns + round(end_s * _NS)),
            "attributes": _attributes(attributes),
            "status": {"code": 2} if attributes.get(v.OUTCOME) == "failed" else {},
        }

    def _span_id(self, number: int) -> str:
        return f"{random.Random(f'{self._trace_id}/{number}').getrandbits(64) or 1:016x}"


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"stringValue": str(value)}
