"""The rows: known truth, and bytes that do not change unnoticed."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from hopbudget.endpoint.apis import APIS
from hopbudget.endpoint.breaks import BREAKS
from hopbudget.endpoint.faults import ROWS, TOKENS, WIDE_TOKENS
from hopbudget.endpoint.knobs import ONLY_FOR
from hopbudget.endpoint.request import Ask
from hopbudget.endpoint.script import Script
from hopbudget.endpoint.wire import writes

GOLDEN = Path(__file__).parent / "golden"
ASK = Ask("sim-small", (), wants_usage=False)
WIRES = {api.name: api.wire(ASK, f"{api.id_prefix}sim-0-1", 1_700_000_000) for api in APIS}
CASES = [(api, row) for api in WIRES for row in (*ROWS, "failed") if api in ONLY_FOR.get(row, WIRES)]


@dataclass(frozen=True)
class Truth:
    """What a right client measures, in milliseconds."""

    ttft: float = 200
    ttfa: float | None = 200
    last: float = 380
    tokens: int = 10
    chunks: int = 10
    finished: bool = True
    usage: bool = True
    done: float | None = 400


TRUTH = {
    "A1": Truth(),
    "A2": Truth(),
    "A3": Truth(),
    "A4": Truth(),
    "A5": Truth(),
    "A6": Truth(last=240, tokens=3, chunks=3, finished=False, usage=False, done=None),
    "A7": Truth(last=240, tokens=3, chunks=3, finished=False, usage=False, done=None),
    "A8": Truth(tokens=50),
    "A9": Truth(tokens=50, usage=False),
    "A10": Truth(ttfa=320),
    "A11": Truth(ttfa=None),
    "A12": Truth(last=200, tokens=1, chunks=1, done=220),
    "A13": Truth(done=1500),
    "B": Truth(ttft=600, ttfa=600, last=780, done=800),
}


def measured(script: Script) -> Truth:
    generated = [step for step in script.steps if step.tokens]
    answers = [step for step in generated if step.kind == "text"]
    kinds = {step.kind for step in script.steps}
    done = [step.after_s for step in script.steps if step.kind == "done"]
    return Truth(
        ttft=round(generated[0].after_s * 1000, 3),
        ttfa=round(answers[0].after_s * 1000, 3) if answers else None,
        last=round(generated[-1].after_s * 1000, 3),
        tokens=sum(step.tokens for step in generated),
        chunks=len(generated),
        finished="stop" in kinds,
        usage="usage" in kinds,
        done=round(done[0] * 1000, 3) if done else None,
    )


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_the_times_and_counts_of_the_table(row: str) -> None:
    assert measured(ROWS[row]()) == TRUTH[row]


@pytest.mark.parametrize(("api", "row"), CASES)
def test_a_row_is_these_bytes_at_these_times(api: str, row: str) -> None:
    now = "".join(
        f"{write.after_s * 1000:7.1f} {write.data!r}\n" for write in writes(WIRES[api], (ROWS | BREAKS)[row]())
    )
    golden = GOLDEN / api / f"{row}.txt"
    if os.environ.get("HOPBUDGET_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(now)
    assert now == golden.read_text()


@pytest.mark.parametrize(("api", "row"), CASES)
def test_steps_and_writes_stand_in_order_of_time(api: str, row: str) -> None:
    script = (ROWS | BREAKS)[row]()
    steps = [step.after_s for step in script.steps]
    times = [write.after_s for write in writes(WIRES[api], script)]
    assert steps == sorted(steps)
    assert times == sorted(times)


@pytest.mark.parametrize("row", ["A1", "A3", "A4", "A5"])
def test_framing_changes_bytes_and_nothing_else(row: str) -> None:
    stream = b"".join(write.data for write in writes(WIRES["chat"], ROWS[row]()))
    events = [re.sub(rb"^data: ?", b"", part) for part in re.split(rb"(?:\r?\n){2}", stream) if part]
    texts = [json.loads(event)["choices"] for event in events[:-1]]
    said = "".join(choices[0]["delta"].get("content") or "" for choices in texts if choices)
    assert said == "".join(WIDE_TOKENS if row == "A5" else TOKENS)
    assert events[-1] == b"[DONE]"


@pytest.mark.parametrize("api", WIRES)
def test_fragments_cut_characters_in_two(api: str) -> None:
    pieces = [write.data for write in writes(WIRES[api], ROWS["A5"]())]
    assert max(len(data) for data in pieces) == 7

    def whole(data: bytes) -> bool:
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
        return True

    assert not all(whole(data) for data in pieces)


@pytest.mark.parametrize("api", WIRES)
def test_a_fragmented_event_is_complete_at_its_time_and_not_before(api: str) -> None:
    completed = [write for write in writes(WIRES[api], ROWS["A5"]()) if write.step is not None]
    assert completed
    assert all(write.step and write.after_s == write.step.after_s for write in completed)
