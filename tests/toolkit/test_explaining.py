"""What `explain` says of single hops: a long answer is not a slow provider."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopbudget.errors import Exit

Run = Callable[..., Any]

LONG, LATE, SLOW = 60, 61, 62
"""The trajectories whose one hop wrote a long answer, waited for its first token, and went on slowly."""


def line(number: int, ttft: float, tokens: int, tpot: float) -> str:
    trace, at = f"{number + 1:032x}", 1_700_000_000_000_000_000 + number * 60_000_000_000
    pairs = {
        "gen_ai.operation.name": {"stringValue": "chat"},
        "gen_ai.request.model": {"stringValue": "m"},
        "gen_ai.request.stream": {"boolValue": True},
        "gen_ai.response.time_to_first_chunk": {"doubleValue": ttft},
        "gen_ai.usage.input_tokens": {"intValue": 500},
        "gen_ai.usage.output_tokens": {"intValue": tokens},
    }
    times = {"startTimeUnixNano": str(at), "endTimeUnixNano": str(at + round((ttft + (tokens - 1) * tpot) * 1e9))}
    agent = [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}]
    root = {"traceId": trace, "spanId": f"{1:016x}", "name": "invoke_agent bot", "attributes": agent, **times}
    chat = {"traceId": trace, "spanId": f"{2:016x}", "parentSpanId": f"{1:016x}", "name": "chat m", **times}
    chat["attributes"] = [{"key": key, "value": value} for key, value in pairs.items()]  # type: ignore[assignment]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [root, chat]}]}]})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Sixty usual trajectories and three slow ones, each for its own reason."""
    random = np.random.default_rng(0)
    usual = [(0.4 * random.lognormal(0, 0.2), int(random.integers(50, 150)), 0.02) for _ in range(60)]
    path = tmp_path / "runs.jsonl"
    slow = [(0.4, 900, 0.02), (4.0, 100, 0.02), (0.4, 100, 0.09)]
    path.write_text("\n".join(line(number, *row) for number, row in enumerate([*usual, *slow])))
    return path


def test_a_slow_hop_says_what_made_it_slow(hopbudget: Run, runs: Path) -> None:
    rows = hopbudget("explain", runs, "--slowest", "63", "--json").json["trajectories"]
    blamed = {int(row["trace_id"], 16) - 1: [hop["blame"] for hop in row["slow_hops"]] for row in rows}
    assert (blamed[LONG], blamed[LATE], blamed[SLOW]) == (["long answer"], ["first token"], ["pace"])
    (late,) = next(row["slow_hops"] for row in rows if int(row["trace_id"], 16) - 1 == LATE)
    assert late["ttft_s"] == 4.0 and late["expected_first_token_s"] < 1.0


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (LONG, "a long answer, the provider is healthy"),
        (LATE, "its first token came late, after 4.00 s"),
        (SLOW, "slower than so many tokens explain"),
    ],
)
def test_and_says_it_in_words(hopbudget: Run, runs: Path, number: int, words: str) -> None:
    said = hopbudget("explain", runs, f"{number + 1:032x}").out
    assert "`chat` #1" in said
    assert words in " ".join(said.split())


def test_of_several_slow_ones_it_says_how_many_were_long_answers(hopbudget: Run, runs: Path) -> None:
    said = " ".join(hopbudget("explain", runs, "--slowest", "3").out.split())
    assert "3 slow hops here took longer than 90% of all hops of their model. 1 of them took no longer" in said


ALONE = 70
"""The only trajectory of its workload, and the slowest of all."""


@pytest.fixture
def with_one_alone(runs: Path) -> Path:
    """The same, and a slow one of a workload that has no other."""
    alone = line(ALONE, 0.4, 3000, 0.02).replace("invoke_agent bot", "invoke_agent lonely")
    runs.write_text(f"{runs.read_text()}\n{alone}")
    return runs


@pytest.mark.parametrize("asked", [("--over", "10s"), ("--slowest", "2")])
def test_a_slow_one_with_nothing_to_compare_with_is_listed_in_its_place(
    hopbudget: Run, with_one_alone: Path, asked: tuple[str, str]
) -> None:
    rows = hopbudget("explain", with_one_alone, *asked, "--json").json["trajectories"]
    assert [int(row["trace_id"], 16) - 1 for row in rows] == [ALONE, LONG]
    assert (rows[0]["reference_s"], rows[0]["excess_s"], rows[0]["parts"]) == (None, None, [])
    assert set(rows[0]) == set(rows[1])
    said = " ".join(hopbudget("explain", with_one_alone, *asked).out.split())
    assert "nothing to compare with in `invoke_agent lonely`" in said


def test_where_all_slow_ones_have_nothing_to_compare_with_they_are_listed(hopbudget: Run, with_one_alone: Path) -> None:
    said = hopbudget("explain", with_one_alone, "--over", "30s")
    assert said.code == 0
    assert "60.4 s" in said.out
    assert "nothing to compare with in `invoke_agent lonely`" in " ".join(said.out.split())


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Three trajectories, of which the one in the middle is all there is to compare with."""
    path = tmp_path / "three.jsonl"
    path.write_text("\n".join(line(number, 0.4, tokens, 0.02) for number, tokens in enumerate([50, 100, 200])))
    return path


def test_one_that_is_its_own_reference_is_said_to_be_typical(hopbudget: Run, three: Path) -> None:
    said = " ".join(hopbudget("explain", three).out.split())
    assert "typical itself: nothing to compare with" in said
    assert "+0 s" not in said
    assert "the 1 trajectory in the middle" in said


def test_and_so_it_is_by_its_trace_id(hopbudget: Run, three: Path) -> None:
    said = " ".join(hopbudget("explain", three, f"{2:032x}").out.split())
    assert "typical itself: nothing to compare with" in said
    assert "0 s over" not in said


def test_where_nothing_can_be_compared_what_is_known_is_listed_and_the_answer_is_cant_say(
    hopbudget: Run, tmp_path: Path
) -> None:
    (tmp_path / "one.jsonl").write_text(line(0, 0.5, 100, 0.02))
    said = hopbudget("explain", "one.jsonl")
    assert said.code == Exit.CANT_SAY
    assert f"{1:032x}"[:12] in said.out and "2.48 s" in said.out
    assert "nothing to compare with: it takes two complete trajectories" in said.err
    found = hopbudget("explain", "one.jsonl", "--json")
    assert found.code == Exit.CANT_SAY
    assert [(row["duration_s"], row["excess_s"], row["parts"]) for row in found.json["trajectories"]] == [
        (pytest.approx(2.48), None, [])
    ]
