"""The time that is left, as it is told to services and processes: what, to whom, and to nobody else."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context

import hopbudget as hb
from hopbudget.tracing import deadline, remaining, scope, terms
from hopbudget.tracing.deadline import Deadline
from hopbudget.tracing.remaining import HEADER, VARIABLE, add_remaining

Run = Callable[..., Deadline]


@given(st.floats(0, 1e6))
def test_what_is_written_is_read_again_a_millisecond_too_little_at_most(left_s: float) -> None:
    text = remaining.written(left_s)
    assert text is not None
    found = remaining.read(text)
    assert found is not None
    assert left_s - 0.001 - 1e-9 <= found <= left_s + 1e-9


def test_no_deadline_is_not_written_and_one_that_passed_is_nothing() -> None:
    assert remaining.written(math.inf) is None
    assert remaining.written(-3.0) == "0"


@pytest.mark.parametrize("text", ["", "abc", "-1", "1.5", "1e3", "1 2", "0x10", "٣", "9" * 13, "inf", "nan", "1,2"])
def test_anything_but_a_whole_number_is_malformed(text: str) -> None:
    assert remaining.read(text) is None


# Services ------------------------------------------------------------------------------------------------------------


def told(host: str, port: int | None = None) -> dict[str, str]:
    headers: dict[str, str] = {}
    add_remaining(headers, host, port)
    return headers


def test_an_allowed_host_is_told_what_is_left_and_no_other(run: Run, clock: Any) -> None:
    run(10.0)
    clock.to(2500)
    hb.propagate_to("api.internal")
    assert told("api.internal") == {HEADER: "7500"}
    assert told("API.internal.") == {HEADER: "7500"}
    assert told("api.openai.com") == told("internal") == told("x.api.internal") == {}


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("api.internal", "api.internal", 8080, True),
        ("api.internal:8000", "api.internal", 8000, True),
        ("api.internal:8000", "api.internal", 8001, False),
        ("api.internal:443", "api.internal", None, True),
        ("api.internal:8000", "api.internal", None, False),
        ("*.internal", "a.b.internal", None, True),
        ("*.internal", "internal", None, False),
        ("*.internal", "evilinternal", None, False),
        ("*.internal:81", "a.internal", 81, True),
        ("API.Internal", "api.internal", None, True),
        ("[::1]:8000", "::1", 8000, True),
        ("::1", "::1", 8000, True),
        ("127.0.0.1", "127.0.0.1", 1, True),
        ("localhost", "localhost", None, True),
    ],
)
def test_an_entry_allows(folder: Path, entry: str, host: str, port: int | None, allowed: bool) -> None:
    hb.propagate_to(entry)
    assert remaining.is_allowed(host, port) is allowed


@pytest.mark.parametrize(
    "wrong", ["", "*", "*.", "http://api.internal", "api.internal/path", "a b", "*a.b", "user@host"]
)
def test_what_is_no_host_is_refused(folder: Path, wrong: str) -> None:
    with pytest.raises(ValueError, match="name a host"):
        hb.propagate_to(wrong)


def test_environment_and_file_allow_hosts_too_and_a_wrong_one_is_said(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("HOPBUDGET_PROPAGATE_TO", "a.internal")
    (folder / "hopbudget.toml").write_text('[propagate]\nhosts = ["b.internal", "http://c.internal"]\n')
    terms.look_again()
    run(10.0)
    assert told("a.internal") == told("b.internal") == {HEADER: "10000"}
    assert told("c.internal") == {}
    assert len(warnings()) == 1
    assert "http://c.internal" in warnings()[0]


def test_the_senders_own_header_stays(run: Run) -> None:
    run(10.0)
    hb.propagate_to("api.internal")
    headers = {HEADER: "5"}
    assert not add_remaining(headers, "api.internal")
    assert headers == {HEADER: "5"}


def test_nothing_is_told_without_a_deadline_or_with_deadlines_switched_off(run: Run) -> None:
    hb.propagate_to("api.internal")
    assert told("api.internal") == {}
    run(math.inf)
    assert told("api.internal") == {}
    run(3.0)
    hb.disable()
    assert told("api.internal") == {}


# Processes -----------------------------------------------------------------------------------------------------------


def test_a_process_keeps_the_deadline_it_was_started_in_however_long_it_takes_to_start(run: Run, clock: Any) -> None:
    run(10.0, mode="abort")
    clock.to(1000)
    variables = hb.environment({"PATH": "/bin"})
    assert set(variables) == {"PATH", VARIABLE}
    clock.to(1800)
    found = remaining.of_process(variables)
    assert found is not None
    assert found.remaining_s() == pytest.approx(8.2, abs=0.001)
    assert found.terms is not None
    assert found.terms.mode == "abort"


def test_a_clock_that_was_set_back_gives_no_time(run: Run, clock: Any) -> None:
    run(10.0)
    left, _, mode = hb.environment({})[VARIABLE].split()
    found = remaining.of_process({VARIABLE: f"{left} {clock.wall_ns() + 10**12} {mode}"})
    assert found is not None
    assert found.remaining_s() <= 10.0


def test_a_process_without_a_deadline_is_told_none_and_an_old_one_is_taken_out(run: Run) -> None:
    assert VARIABLE not in hb.environment({VARIABLE: "1000 0 deadline"})


@pytest.mark.parametrize("text", ["", "1000", "x 0 deadline", "1000 x deadline", "1000 0 strict", "-1 0 deadline"])
def test_a_variable_that_cannot_be_read_is_no_deadline(clock: Any, text: str) -> None:
    assert remaining.of_process({VARIABLE: text}) is None


def test_what_nothing_encloses_keeps_the_processes_deadline(
    run: Run, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(10.0)
    monkeypatch.setattr(scope.setup, "home_deadline", None)
    remaining.settle(hb.environment({}))
    found = deadline.current(Context())
    assert found is not None
    assert found.remaining_s() == pytest.approx(10.0, abs=0.001)


def test_a_started_program_goes_on_with_the_deadline(folder: Path) -> None:
    code = "import hopbudget as hb; print(hb.remaining_s())"
    with hb.trajectory("agent", deadline_s=30.0):
        said = subprocess.check_output([sys.executable, "-c", code], env=hb.environment(), text=True)
        left_s = hb.remaining_s()
    assert left_s < float(said) < 30.0
    assert VARIABLE not in os.environ
