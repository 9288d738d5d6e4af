"""Which terms a trajectory runs on, when they change, and what is said about those that can't be used."""

import logging
import math
import threading
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hopbudget.tracing import scope
from hopbudget.tracing import terms as t
from hopbudget.tracing.book import MOST
from hopbudget.tracing.clock import Clock
from hopbudget.tracing.plan import Plan

Warnings = Callable[[], list[str]]

CHAT = """
[workloads.chat]
deadline = "12s"
enforce = "deadline"
plan = "plan.toml"
max_steps = 9
[workloads.chat.hops.answer]
stall = "2s"
"""


def plan(folder: Path, deadline_s: float = 7.0, name: str = "plan.toml", **more: str) -> Path:
    path = folder / name
    lines = {"id": '"abc"', "workload": '"chat"', **more}
    path.write_text(f"format = 1\ndeadline_s = {deadline_s}\n" + "".join(f"{k} = {v}\n" for k, v in lines.items()))
    return path


def test_with_nothing_said_there_is_no_deadline_and_it_is_observed(clock: Any) -> None:
    found = t.terms("chat")
    assert (found.deadline_s, found.mode, found.plan, found.max_steps) == (math.inf, "observe", None, None)
    assert found.hop("answer") == t.HopTerms()


def test_code_goes_before_environment_before_file_before_plan(
    clock: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(folder)
    (folder / "hopbudget.toml").write_text('[workloads.chat]\nplan = "plan.toml"\n')

    def deadline(**code: Any) -> tuple[float, str]:
        t.look_again()
        status = t.deadline_status("chat", **code)
        return status.deadline_s, status.sources["deadline"]

    assert deadline() == (7.0, "plan")
    (folder / "hopbudget.toml").write_text(CHAT)
    assert deadline() == (12.0, "hopbudget.toml")
    monkeypatch.setenv("HOPBUDGET_DEADLINE", "5s")
    assert deadline() == (5.0, "environment")
    assert deadline(deadline_s=3.0) == (3.0, "code")


def test_a_workload_of_the_file_holds_its_plan_its_mode_its_steps_and_its_hops_limits(clock: Any, folder: Path) -> None:
    plan(folder)
    (folder / "hopbudget.toml").write_text(CHAT)
    found = t.terms("chat")
    assert (found.mode, found.max_steps, found.hop("answer").stall_s) == ("deadline", 9, 2.0)
    assert found.plan is not None
    assert found.plan.deadline_s == 7.0
    assert t.terms("other").deadline_s == math.inf


def test_the_file_may_stand_anywhere_and_its_plan_beside_it(
    clock: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "etc").mkdir()
    plan(folder / "etc")
    (folder / "etc" / "hb.toml").write_text(CHAT)
    monkeypatch.setenv("HOPBUDGET_CONFIG", str(folder / "etc" / "hb.toml"))
    assert t.deadline_status("chat").plan == "abc"


def test_a_process_wide_plan_is_its_own_workloads_only(
    clock: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPBUDGET_PLAN", str(plan(folder)))
    assert t.terms("chat").deadline_s == 7.0
    assert t.terms("batch").deadline_s == math.inf
    assert t.deadline_status("batch").not_used == "it is another workload's"


# Changes -----------------------------------------------------------------------------------------------------------


def test_a_file_that_changes_is_in_force_a_second_later_and_not_before(clock: Any, folder: Path) -> None:
    path = plan(folder)
    assert t.terms("chat", plan=path).deadline_s == 7.0
    plan(folder, 8.25)
    clock.to(999)
    assert t.terms("chat", plan=path).deadline_s == 7.0
    clock.to(1001)
    assert t.terms("chat", plan=path).deadline_s == 8.25


def test_a_configuration_that_comes_and_goes_is_followed(clock: Any, folder: Path) -> None:
    assert t.terms("chat").mode == "observe"
    (folder / "hopbudget.toml").write_text(CHAT)
    clock.to(1001)
    assert t.terms("chat").mode == "deadline"
    (folder / "hopbudget.toml").unlink()
    clock.to(2002)
    assert t.terms("chat").mode == "observe"


def test_what_nothing_changed_is_the_same_object_and_no_file_is_looked_at(
    clock: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plan(folder)
    first = t.terms("chat", deadline_s=3.0, plan=path)
    monkeypatch.setattr("os.stat", pytest.fail)
    assert t.terms("chat", deadline_s=3.0, plan=path) is first


def test_threads_that_start_together_all_get_what_the_file_says(
    clock: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "hopbudget.toml").write_text(CHAT)
    reading, together = threading.Event(), threading.Event()
    read = tomllib.load

    def slow(file: Any) -> Any:
        reading.set()
        assert together.wait(60)
        return read(file)

    monkeypatch.setattr(tomllib, "load", slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(t.terms, "chat")
        assert reading.wait(60)
        second = pool.submit(t.terms, "chat")
        together.set()
        assert first.result(60).mode == second.result(60).mode == "deadline"


def test_whoever_reads_the_log_may_begin_a_trajectory(clock: Any, folder: Path) -> None:
    (folder / "hopbudget.toml").write_text(CHAT.replace('"12s"', '"12"'))
    seen: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(t.terms("chat").mode)

    handler = Handler()
    logging.getLogger("hopbudget").addHandler(handler)
    try:
        assert t.terms("chat").mode == "deadline"
    finally:
        logging.getLogger("hopbudget").removeHandler(handler)
    assert seen == ["deadline"] * len(seen) != []


def test_names_without_end_take_no_memory_without_end(clock: Any) -> None:
    for index in range(3 * MOST):
        t.terms(f"trajectory {index}", deadline_s=1.0)
    assert len(t._book()._terms) <= MOST


def test_a_clock_that_was_exchanged_for_another_does_not_stop_the_looks(
    clock: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.to(1e9)
    assert t.terms("chat").mode == "observe"
    monkeypatch.setattr(scope.setup, "clock", Clock(lambda: 5))
    (folder / "hopbudget.toml").write_text(CHAT)
    assert t.terms("chat").mode == "deadline"


# What can't be used --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("format = [", "not a TOML file"),
        ("deadline_s = 3.0", "whole number `format`"),
        ("format = 99\ndeadline_s = 3.0", "format 99 is newer"),
        ("format = 1\ndeadline_s = -1.0", "deadline_s"),
    ],
)
def test_a_plan_that_cannot_be_read_is_said_once_and_the_bare_deadline_holds(
    clock: Any, folder: Path, warnings: Warnings, content: str | None, said: str
) -> None:
    path = folder / "plan.toml"
    if content is not None:
        path.write_text(content)
    for second in range(4):
        clock.to(second * 1500)
        found = t.terms("chat", deadline_s=3.0, plan=path, enforce="deadline")
        assert (found.deadline_s, found.mode, found.plan) == (3.0, "deadline", None)
    (warning,) = warnings()
    assert said in warning
    assert "the bare deadline holds" in warning
    status = t.deadline_status("chat", plan=path)
    assert said in str(status.not_used)
    assert status.warnings == (warning,)


def test_a_plan_that_breaks_while_it_is_in_use_leaves_its_deadline(clock: Any, folder: Path) -> None:
    path = plan(folder)
    assert t.terms("chat", plan=path).plan is not None
    path.write_text("format =")
    clock.to(1001)
    found = t.terms("chat", plan=path)
    assert (found.deadline_s, found.plan) == (7.0, None)
    plan(folder, 9.0)
    clock.to(2002)
    found = t.terms("chat", plan=path)
    assert found.deadline_s == 9.0
    assert found.plan is not None


def test_a_broken_configuration_is_said_once_and_what_it_said_before_holds(
    clock: Any, folder: Path, warnings: Warnings
) -> None:
    (folder / "hopbudget.toml").write_text(CHAT)
    assert t.terms("chat").mode == "deadline"
    (folder / "hopbudget.toml").write_text("[workloads.chat")
    for second in range(1, 4):
        clock.to(second * 1500)
        assert t.terms("chat").mode == "deadline"
    assert len([warning for warning in warnings() if "hopbudget.toml" in warning]) == 1


def test_a_named_configuration_that_is_missing_is_said_and_an_unnamed_one_is_not(
    clock: Any, folder: Path, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    t.terms("chat")
    assert warnings() == []
    monkeypatch.setenv("HOPBUDGET_CONFIG", "nowhere.toml")
    t.look_again()
    t.terms("chat")
    assert len(warnings()) == 1
    assert "nowhere.toml" in warnings()[0]


def learned(**fingerprint: Any) -> Plan:
    return Plan({"format": 1, "id": "abc", "deadline_s": 7.0, "fingerprint": fingerprint})


@pytest.mark.parametrize(
    ("hop", "model", "reason"),
    [
        ("plan", "m-1", None),
        ("plan", None, None),
        (None, None, None),
        ("plan", "provider/m-1-2026-11-01", None),
        ("search", "m-1", "it knows no hop 'search'"),
        ("plan", "m-2", "it was not learned on the model 'm-2'"),
    ],
)
def test_a_plan_that_does_not_fit_what_runs_is_said_once_and_the_bare_deadline_holds(
    clock: Any, warnings: Warnings, hop: str | None, model: str | None, reason: str | None
) -> None:
    mine = learned(hops=["plan", "answer"], models=["m-1"])
    for _ in range(3):
        found = t.terms("chat", plan=mine)
        found.hop(hop, model)
        assert found.unfit == reason
        assert found.plan is (mine if reason is None else None)
        assert found.deadline_s == 7.0
    said = warnings()
    assert len(said) == (reason is not None)
    assert all(str(reason) in sentence and "abc" in sentence for sentence in said)
    assert t.deadline_status("chat", plan=mine).not_used == reason


def test_a_plan_that_says_nothing_of_hops_fits_all(clock: Any) -> None:
    found = t.terms("chat", plan=learned())
    found.hop("anything", "m-9")
    assert found.plan is not None


def test_a_new_version_of_a_plan_that_did_not_fit_is_tried_again(clock: Any, folder: Path) -> None:
    path = plan(folder, fingerprint='{ hops = ["plan"] }')
    t.terms("chat", plan=path).hop("search")
    assert t.terms("chat", plan=path).plan is None
    plan(folder, fingerprint='{ hops = ["plan", "search"] }')
    clock.to(1001)
    found = t.terms("chat", plan=path)
    found.hop("search")
    assert found.plan is not None


# The kill switch, and wrong code -------------------------------------------------------------------------------------


def test_the_kill_switch_in_code_works_at_once_and_is_taken_back(clock: Any) -> None:
    assert t.terms("chat", deadline_s=3.0, enforce="deadline").mode == "deadline"
    t.disable()
    assert t.terms("chat", deadline_s=3.0, enforce="deadline") is t.NO_TERMS
    assert t.deadline_status("chat").off
    t.enable()
    assert t.terms("chat", deadline_s=3.0, enforce="deadline").deadline_s == 3.0


def test_the_kill_switch_in_the_environment_works_within_a_second(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not t.off()
    monkeypatch.setenv("HOPBUDGET_OFF", "1")
    clock.to(1001)
    assert t.off()
    t.enable()
    assert t.terms("chat", deadline_s=3.0) is t.NO_TERMS


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"deadline_s": 0}, ValueError),
        ({"deadline_s": -1.0}, ValueError),
        ({"deadline_s": math.nan}, ValueError),
        ({"deadline_s": "12s"}, TypeError),
        ({"deadline_s": True}, TypeError),
        ({"plan": 3}, TypeError),
        ({"enforce": "strict"}, ValueError),
        ({"enforce": True}, ValueError),
        ({"max_steps": 0}, ValueError),
        ({"max_steps": 1.5}, TypeError),
    ],
)
def test_wrong_arguments_in_code_raise_and_name_the_argument(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(wrong))):
        t.check_arguments(**wrong)


def test_right_arguments_pass() -> None:
    t.check_arguments(deadline_s=math.inf, plan="plan.toml", enforce="abort", max_steps=3)
    t.check_arguments(deadline_s=3, plan=learned())


def test_what_should_never_raise_does_not(clock: Any) -> None:
    errors = scope.recorder_errors()
    unhashable: Any = {}
    assert t.terms("chat", plan=unhashable) is t.NO_TERMS
    assert scope.recorder_errors() == errors + 1


def test_a_hop_without_a_name_has_the_limits_of_its_operation() -> None:
    limits = {"chat": t.HopTerms(stall_s=1.0), "text_completion": t.HopTerms(stall_s=2.0)}
    found = t.Terms(hops=limits)
    assert found.hop(None) is limits["chat"]
    assert found.hop(None, None, "text_completion") is limits["text_completion"]
    assert found.hop("answer") == t.HopTerms()


def test_a_plan_that_knows_no_chat_fits_hops_without_a_name() -> None:
    found = t.Terms(plan=learned(hops=["answer"]), hops={"chat": t.HopTerms(stall_s=1.0)})
    found.hop(None)
    assert found.unfit is None
