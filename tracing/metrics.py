"""OpenTelemetry metrics of hops, where the program has set a MeterProvider; nothing at all where it has not.

Recorded once, when a hop ends. The `gen_ai.client.*` names are those of the GenAI conventions as of October 2026, after
`operation` became `inference` in them. Ours stand beside them: no convention has hops, first tokens or outcomes.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.clock import seconds

if TYPE_CHECKING:
    from hopbudget.tracing.visits import Visit

DURATION_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
FIRST_TOKEN_S: Final = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
TOKEN_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 10.0)
TOKENS: Final = tuple(4**power for power in range(14))

GAPS_LIMIT: Final = 64
"""Gaps of one stream that are recorded; of a longer stream, that many evenly spaced ones. The SDK takes microseconds
for each, all at once when the stream ends."""

_COMMON: Final = (v.OPERATION, v.PROVIDER, v.REQUEST_MODEL, v.RESPONSE_MODEL)


class Instruments:
    """The histograms and the counter, of one MeterProvider."""

    def __init__(self, provider: Any) -> None:
        meter = provider.get_meter(v.SCOPE_NAME)

        def histogram(name: str, unit: str, about: str, edges: tuple[float, ...]) -> Any:
            return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=list(edges))

        client = "gen_ai.client.inference"
        self.duration = histogram(f"{client}.duration", "s", "Issue of the request to its end.", DURATION_S)
        self.first_chunk = histogram(f"{client}.time_to_first_chunk", "s", "Issue to the first chunk.", DURATION_S)
        self.chunk = histogram(f"{client}.time_per_output_chunk", "s", "Time between output chunks.", DURATION_S)
        self.input = histogram(f"{client}.operation.input_tokens", "{token}", "Input tokens of a request.", TOKENS)
        self.output = histogram(f"{client}.operation.output_tokens", "{token}", "Output tokens of a request.", TOKENS)
        self.hop = histogram("hopbudget.hop.duration", "s", "A hop, retries and backoff included.", DURATION_S)
        self.ttft = histogram("hopbudget.ttft", "s", "Issue to the first generated token.", FIRST_TOKEN_S)
        self.tpot = histogram("hopbudget.tpot", "s", "Time per output token after the first.", TOKEN_S)
        self.itl = histogram("hopbudget.itl", "s", "Gaps between token-bearing chunks.", TOKEN_S)
        self.outcomes = meter.create_counter("hopbudget.hops", "{hop}", "Hops, by outcome.")
        self.interventions = meter.create_counter(
            "hopbudget.interventions", "{decision}", "What was ended or not sent, by decision."
        )

    def record(self, visit: "Visit", facts: Mapping[str, Any]) -> None:
        """Record one visit of a hop; `facts` are its span's attributes, and the trajectory's workload."""
        common = {key: facts[key] for key in _COMMON if key in facts}
        failed = {} if visit.error is None else {v.ERROR_TYPE: visit.error}
        own = {key: facts[key] for key in (v.HOP, v.WORKLOAD, v.REQUEST_MODEL, v.RESPONSE_MODEL) if key in facts}
        done = {key: facts[key] for key in (v.LIMIT_HIT, v.FAILOVER, v.MIDSTREAM) if key in facts}
        told = {**own, v.OUTCOME: str(visit.outcome)}
        length_s = seconds(visit.end_ns - visit.started_ns)
        self.duration.record(length_s, {**common, **failed})
        self.hop.record(length_s, told)
        self.outcomes.add(1, {**told, **done})
        for histogram, key in ((self.input, v.INPUT_TOKENS), (self.output, v.OUTPUT_TOKENS)):
            if key in facts:
                histogram.record(facts[key], common)
        for histogram, key in ((self.ttft, v.TTFT), (self.tpot, v.TPOT)):
            if key in facts:
                histogram.record(facts[key], own)
        clock = visit.clock
        if clock is None or clock.began_ns is None:
            return
        self.first_chunk.record(seconds(clock.began_ns - visit.started_ns), common)
        gaps = clock.gaps.exact
        for us in gaps[:: -(-len(gaps) // GAPS_LIMIT) or 1]:
            self.chunk.record(us / 1e6, common)
            self.itl.record(us / 1e6, own)


class _Known:
    provider: Any = None
    instruments: Instruments | None = None


def instruments() -> Instruments | None:
    """The instruments of the MeterProvider in use; None while nobody set one.

    Nobody can have set one without loading the API's metrics, which is not loaded for it here. Its own variable is
    read, because its function reads the environment each time nothing is set.
    """
    api = sys.modules.get("opentelemetry.metrics._internal")
    provider = getattr(api, "_METER_PROVIDER", None)
    if provider is None:
        return None
    if provider is not _Known.provider:
        _Known.instruments = None if type(provider).__name__.startswith("NoOp") else Instruments(provider)
        _Known.provider = provider
    return _Known.instruments
