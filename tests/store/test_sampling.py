"""The share of traces that was kept: where it is said, and what is made of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.store import otlp, protobuf, sampling
from hopbudget.store.duck import Store
from hopbudget.store.queries import Where
from hopbudget.store.sampled import sampled

from .test_protobuf import as_protobuf


@pytest.mark.parametrize(
    ("state", "ratio"),
    [
        ("ot=th:0", 1.0),
        ("ot=th:8", 0.5),
        ("ot=th:c", 0.25),
        ("ot=rv:11111111111111;th:e666", 0.1),
        ("vendor=x,ot=th:8;rv:1", 0.5),
        ("ot=p:3;r:5", 0.125),
        ("ot=p:63", None),
        ("ot=th:xyz", None),
        ("other=th:8", None),
        ("", None),
    ],
)
def test_the_ratio_of_a_trace_state(state: str, ratio: float | None) -> None:
    found = sampling.of_trace_state(state)
    assert found is None if ratio is None else found == pytest.approx(ratio, rel=1e-3)


@pytest.mark.parametrize(
    ("attributes", "ratio"),
    [
        ({"sampling.probability": 0.2}, 0.2),
        ({"sampling.probability": "0.2"}, 0.2),
        ({"SampleRate": 20}, 0.05),
        ({"sampler.type": "probabilistic", "sampler.param": 0.1}, 0.1),
        ({"sampling.probability": 0}, None),
        ({"sampling.probability": 3}, None),
        ({"SampleRate": 0}, None),
        ({}, None),
    ],
)
def test_the_ratio_that_attributes_say(attributes: Any, ratio: float | None) -> None:
    assert sampling.ratio(attributes) == ratio


@given(st.text(max_size=60))
def test_a_ratio_is_a_share_whatever_the_trace_state(text: str) -> None:
    for state in (text, f"ot={text}", f"ot=th:{text}"):
        found = sampling.of_trace_state(state)
        assert found is None or 0 < found <= 1


def test_json_and_protobuf_note_it_alike_and_it_reaches_the_trajectory(make: Any) -> None:
    request = make.request([make.chat("c", 0, 1, traceState="ot=th:c")])
    line = json.dumps(request, separators=(",", ":")).encode()
    (span,) = otlp.decode(line).spans
    assert span.attributes["sampling.probability"] == 0.25
    assert protobuf.decode(as_protobuf(line)).spans == [span]
    assert make.facts(make.agent("bot", 0, 1, traceState="ot=th:c")).trajectories[0].sampling_ratio == 0.25


def test_weights_count_what_a_kept_trajectory_stands_for(make: Any, store: Store, tmp_path: Path) -> None:
    kept = [
        [make.agent("bot", 0, 1 + number, trace=f"t{number}", traceState="ot=th:e666" if number < 2 else "ot=th:0")]
        for number in range(4)
    ]
    store.import_paths([make.file(tmp_path / "a.jsonl", *kept)])
    with store.reading() as con:
        found = sampled(con, Where())
    assert found is not None
    assert (found["trajectories"], found["of"], found["most"]) == (2, 4, 1.0)
    assert found["least"] == pytest.approx(0.1, rel=1e-3)
    assert found["stands_for"] == pytest.approx(22, rel=1e-3)
    assert found["weighted_s"] == {"p50": 2.0, "p90": 2.0, "p95": 3.0, "p99": 4.0}


def test_where_nothing_was_left_out_there_is_nothing_to_say(make: Any, store: Store, tmp_path: Path) -> None:
    store.import_paths([make.file(tmp_path / "a.jsonl", [make.agent("bot", 0, 1, traceState="ot=th:0")])])
    with store.reading() as con:
        assert sampled(con, Where()) is None
