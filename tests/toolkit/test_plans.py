"""Plan files: what they say, and what they keep."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets import Allocation, Feasibility, Learned, Share, Slot, StreamBudget
from hopbudget.errors import Exit, UserError
from hopbudget.plans import files

HUGE = math.inf


def slot(name: str, budget_s: float) -> Slot:
    return Slot(name, budget_s, 0.95, 1.0, 2.0, 1.5, 0.8, False)


def allocation(**changes: Any) -> Allocation:
    base = Allocation(
        deadline_s=10.0,
        percentile=90.0,
        binds="last",
        method="independent",
        slot_kind="name",
        slots=(slot("plan", 3.0), slot("search", 2.0)),
        work_s=1.0,
        work=slot("work", 1.0),
        stream=StreamBudget(0.8, 0.02, 161, 90.0, 0.94, 0.9, 4.0, 0.93, 2.0, 3.0),
        feasibility=Feasibility(0.9, 0.85, 0.94, 9.5, 9.0, HUGE, "undecided", "7 more trajectories"),
        kept=Share(0.8, 0.75, 0.84, 100),
        learned_from=Learned(100, None, ("m1",), 1_700_000_000.0, 1_700_086_400.0, {"intervened": 3}),
        notes=(),
    )
    return replace(base, **changes)


def plan(**changes: Any) -> dict[str, Any]:
    return files.plan_dict(allocation(**changes), "agent")


def test_a_plan_has_the_keys_that_users_rely_on() -> None:
    p = plan()
    assert {"format", "id", "workload", "deadline_s", "percentile", "binds", "method", "slots", "work_s"} <= p.keys()
    assert {"slot", "budget_s"} <= p["slots"][0].keys()
    assert {"ttft_s", "tpot_s", "tokens", "budget_s"} <= p["stream"].keys()
    assert {"p_deadline", "p_low", "p_high", "min_deadline_s", "verdict", "needs"} <= p["feasibility"].keys()
    assert set(p["learned_from"]) >= {"trajectories", "runs", "models", "first", "last", "left_out"}
    assert (p["format"], p["workload"], p["deadline_s"]) == (1, "agent", 10.0)


def test_a_limit_is_rounded_up_so_that_what_it_was_read_from_keeps_it() -> None:
    stream = replace(allocation().stream, ttft_s=0.8000001, tpot_s=0.0200000001)  # type: ignore[type-var]
    written = plan(stream=stream)["stream"]
    assert (written["ttft_s"], written["tpot_s"]) == (0.800001, 0.020000001)


def test_what_is_not_known_is_null_and_nothing_is_infinite() -> None:
    p = plan(stream=None)
    assert p["stream"] is None
    assert p["feasibility"]["min_deadline_high_s"] is None
    assert p["learned_from"]["runs"] is None
    json.dumps(p, allow_nan=False)


def test_times_of_day_are_utc() -> None:
    assert plan()["learned_from"]["first"] == "2023-11-14T22:13:20Z"


def test_equal_plans_have_equal_ids_and_other_plans_others() -> None:
    assert plan()["id"] == plan()["id"]
    assert re.fullmatch(r"[0-9a-f]{12}", plan()["id"])
    assert plan(deadline_s=11.0)["id"] != plan()["id"]


seconds = st.floats(0, 1e5, allow_nan=False)


@given(st.lists(seconds, min_size=1, max_size=6), seconds, st.floats(0.001, 1e5))
def test_rounded_budgets_never_add_up_to_more_than_the_rounded_deadline(
    budgets: list[float], work_s: float, stream_s: float
) -> None:
    stream = replace(allocation().stream, budget_s=stream_s)  # type: ignore[type-var]
    rows = tuple(slot(f"s{i}", b) for i, b in enumerate(budgets))
    deadline = math.fsum([*budgets, work_s, stream_s])
    p = plan(deadline_s=deadline, slots=rows, work_s=work_s, stream=stream)
    parts = [*(row["budget_s"] for row in p["slots"]), p["work_s"], p["stream"]["budget_s"]]
    assert sum(round(part * 1e6) for part in parts) <= round(p["deadline_s"] * 1e6)
    assert math.fsum(parts) == pytest.approx(deadline, abs=1e-5)
    assert p["deadline_s"] >= deadline - 1e-9


def test_a_plan_reads_back_as_it_was_written(tmp_path: Path) -> None:
    for number, p in enumerate([plan(), plan(stream=None), plan(slots=())]):
        path = tmp_path / f"{number}.toml"
        files.write(path, p)
        assert files.read(path) == p


def test_a_key_that_is_not_known_is_left_out_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    files.write(path, plan())
    text = path.read_text()
    assert "runs" not in text and "min_deadline_high_s" not in text
    assert "inf" not in text.replace("infeasible", "")


def test_a_rewritten_plan_keeps_comments_and_keys_that_are_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    files.write(path, plan())
    text = path.read_text()
    text = "# agreed with the voice team\nowner = 'ana'\n" + text
    text = text.replace("deadline_s = 10.0", "deadline_s = 10.0 # from the contract")
    text = text.replace('slot = "plan"', 'slot = "plan"\nalert = true')
    text = text.replace("[stream]", "[stream]\nstall_s = 2.0")
    path.write_text(text + "\n[limits]\nsteps = 7 # by hand\n")
    files.write(path, plan(deadline_s=20.0, slots=(slot("plan", 7.0), slot("new", 8.0))))
    text, found = path.read_text(), files.read(path)
    for kept in ("# agreed with the voice team", "# from the contract", "# by hand"):
        assert kept in text
    assert (found["owner"], found["limits"], found["stream"]["stall_s"]) == ("ana", {"steps": 7}, 2.0)
    assert found["deadline_s"] == 20.0
    assert [(row["slot"], row["budget_s"], row.get("alert")) for row in found["slots"]] == [
        ("plan", 7.0, True),
        ("new", 8.0, None),
    ]


def test_what_is_no_longer_known_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    files.write(path, plan())
    new = plan(stream=None, learned_from=Learned(5, 2, (), 0.0, 1.0, {}))
    files.write(path, new)
    assert files.read(path) == new


def test_a_key_that_becomes_known_again_stays_at_the_top_level(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    files.write(path, files.plan_dict(allocation(), None))
    files.write(path, plan())
    assert files.read(path) == plan()


def test_a_file_that_is_no_toml_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("notes to self")
    with pytest.raises(UserError, match="is not a TOML file"):
        files.write(path, plan())
    assert path.read_text() == "notes to self"


def test_a_write_leaves_no_other_files_behind(tmp_path: Path) -> None:
    files.write(tmp_path / "plan.toml", plan())
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.toml"]


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't write the plan to") as caught:
        files.write(tmp_path / "missing" / "plan.toml", plan())
    assert caught.value.exit_code == Exit.ENVIRONMENT


def test_a_missing_plan_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no plan at .*hopbudget allocate --out"):
        files.read(tmp_path / "plan.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = ", "is not a TOML file"),
        ("a = 1\nkept_of_deadline", "is not a TOML file: it ends too early, at line 2"),
        ("deadline_s = 1.0", "is not a plan"),
        ("format = 1", "`deadline_s` must be a positive number of seconds, not None"),
        ("format = 1\ndeadline_s = inf", "`deadline_s` must be a positive number"),
        ("format = 1\ndeadline_s = 'soon'", "not 'soon'"),
        ("format = 1\ndeadline_s = 1e308", "`deadline_s` is longer than ten years: 1e\\+308 seconds"),
        ("format = 1\ndeadline_s = 1.0\nslots = 3", "`slots` must be an array of tables"),
        ("format = 1\ndeadline_s = 1.0\n[[slots]]\nslot = 'a'\nbudget_s = -1.0", "slot 1 needs"),
        ("format = 1\ndeadline_s = 1.0\nstream = 3", "`stream` must be a table"),
    ],
)
def test_a_broken_plan_says_what_is_wrong_with_it(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=says) as caught:
        files.read(path)
    assert str(path) in caught.value.message


def test_a_plan_of_a_newer_version_is_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("format = 2\ndeadline_s = 1.0\n")
    with pytest.raises(UserError, match="newer than this hopbudget reads") as caught:
        files.read(path)
    assert caught.value.exit_code == Exit.ENVIRONMENT


def test_a_plan_written_by_hand_may_be_short(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(tomlkit.dumps({"format": 1, "deadline_s": 12, "slots": [{"slot": "a", "budget_s": 3}]}))
    found = files.read(path)
    assert found["deadline_s"] == 12
    assert found["slots"][0]["kept"] is None
    assert found["stream"] is None
