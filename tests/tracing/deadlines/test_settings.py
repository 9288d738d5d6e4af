"""What `hopbudget.toml` and the environment may say, and what becomes of what they may not."""

import contextlib
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.config.tables import HOP, WORKLOAD
from hopbudget.tracing.settings import (
    HOP_KEYS,
    WORKLOAD_KEYS,
    Config,
    HopTerms,
    Workload,
    duration,
    read_config,
    read_environment,
)

FILE = """
[workloads.chat]
deadline = "12s"
enforce = "deadline"
plan = "plan.toml"
max_steps = 9
match.name = "answering"

[workloads.chat.hops.answer]
first_token = "0.8s"
stall = "2s"
completion = "10s"
silent_thinking = true
enforce = "observe"

[[workloads.chat.objectives]]
metric = "ttft"
percentile = 95
limit = "1.5s"

[propagate]
hosts = ["api.internal"]
"""


@pytest.mark.parametrize(
    ("text", "seconds"), [("12s", 12), ("800ms", 0.8), ("2m", 120), ("2min", 120), ("1.5h", 5400), (" .5 s ", 0.5)]
)
def test_a_duration_is_a_number_with_its_unit(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("wrong", ["12", 12, 1.5, "", "s", "-1s", "0s", "1d", "12 s s", "1e3s", None, True, "١s"])
def test_what_has_no_unit_or_is_nothing_is_no_duration(wrong: object) -> None:
    with pytest.raises(ValueError, match=r'as "12s", "800ms" or "2m"'):
        duration(wrong)


@given(st.integers(1, 10**9))
def test_milliseconds_and_seconds_agree(ms: int) -> None:
    assert duration(f"{ms}ms") == pytest.approx(duration(f"{ms / 1000:.3f}s"))


@given(st.text())
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert duration(text) > 0


def test_the_runtime_keys_of_a_file_are_read_and_the_others_left_alone() -> None:
    told: list[str] = []
    assert read_config(tomllib.loads(FILE), told.append) == Config(
        {
            "chat": Workload(
                12.0, "deadline", "plan.toml", 9, {"answer": HopTerms(0.8, 2.0, 10.0, True, "observe")}, "answering"
            )
        },
        ("api.internal",),
    )
    assert told == []


def test_a_workload_is_found_by_its_name_and_by_its_trajectories_name() -> None:
    config = read_config(tomllib.loads(FILE), pytest.fail)
    assert config.workload("chat") is config.workload("answering") is config.workloads["chat"]
    assert config.workload("other") == Workload()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('deadline = "12"', "workloads.chat.deadline: a duration"),
        ('enforce = "strict"', "workloads.chat.enforce: a mode is one of observe, deadline, abort"),
        ("plan = 3", "workloads.chat.plan: this is a text"),
        ("max_steps = 0", "workloads.chat.max_steps: this is a whole number"),
        ("hops = 3", "workloads.chat.hops: this is a table"),
        ('hops.answer.stall = "soon"', "workloads.chat.hops.answer.stall: a duration"),
        ("hops.answer = 1", "workloads.chat.hops.answer: this is a table"),
        ('hops.answer.first_tokn = "1s"', "workloads.chat.hops.answer.first_tokn: there is no such key"),
        ('dead_line = "1s"', "workloads.chat.dead_line: there is no such key"),
    ],
)
def test_a_key_that_cannot_be_understood_is_told_by_its_path_and_the_rest_holds(wrong: str, said: str) -> None:
    told: list[str] = []
    text = f'[workloads.other]\ndeadline = "3s"\n[workloads.chat]\n{wrong}\n'
    config = read_config(tomllib.loads(text), told.append)
    assert config.workload("other").deadline_s == 3.0
    assert config.workload("chat")._replace(hops={}) == Workload()
    assert len(told) == 1
    assert said in told[0]
    assert "left out" in told[0]


def test_the_keys_that_are_known_are_those_of_the_whole_file() -> None:
    assert (WORKLOAD.keys.keys(), HOP.keys.keys()) == (WORKLOAD_KEYS, HOP_KEYS)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(values, values, values)
def test_no_content_of_a_file_raises(a: Any, b: Any, c: Any) -> None:
    chat = {"deadline": a, "enforce": b, "hops": {"answer": {"stall": a, "silent_thinking": b}, "x": c}, "match": c}
    for document in ({"workloads": {"chat": chat}, "propagate": b}, {"workloads": c, "propagate": {"hosts": a}}):
        assert isinstance(read_config(document, lambda sentence: None), Config)


def test_the_environments_variables_are_read() -> None:
    found = read_environment(
        {
            "HOPBUDGET_DEADLINE": "3s",
            "HOPBUDGET_ENFORCE": "abort",
            "HOPBUDGET_PLAN": "p.toml",
            "HOPBUDGET_CONFIG": "c.toml",
            "HOPBUDGET_OFF": "1",
            "HOPBUDGET_PROPAGATE_TO": "a.internal, b.internal:81",
        },
        pytest.fail,
    )
    assert found == (True, 3.0, "abort", "p.toml", "c.toml", ("a.internal", "b.internal:81"))


@pytest.mark.parametrize(("value", "off"), [("1", True), ("TRUE", True), ("0", False), ("", False), ("off", False)])
def test_the_kill_switch_is_a_yes(value: str, off: bool) -> None:
    assert read_environment({"HOPBUDGET_OFF": value}, pytest.fail).off is off


def test_a_variable_that_cannot_be_understood_is_told_and_left_out() -> None:
    told: list[str] = []
    assert read_environment({"HOPBUDGET_DEADLINE": "3", "HOPBUDGET_ENFORCE": ""}, told.append).deadline_s is None
    assert len(told) == 1
    assert told[0].startswith("HOPBUDGET_DEADLINE: a duration")
