"""`allocate`: auto, both ends, units, half-lives, what if, and plans that are learned again."""

from pathlib import Path
from typing import Any

import pytest

from hopbudget.errors import UserError
from hopbudget.plans import files
from hopbudget.plans.updating import difference
from hopbudget.plans.wondering import parse


def test_auto_is_the_default_and_says_what_it_took(hopbudget: Any, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "p90")
    assert said.code == 0
    assert "auto took" in said.out
    for words in ("keep every budget and the deadline", "price of more slots", "one more second"):
        assert words in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
    plan = hopbudget("allocate", filled, "--deadline", "p90", "--json").json
    assert plan["method"] == "auto"
    assert plan["auto"]["method"] in plan["auto"]["candidates"][0]["method"] or plan["auto"]["beats_equal"]


def test_the_longest_final_answer_says_of_which_model_it_is(hopbudget: Any, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "p90")
    assert "a final answer of small whose call begins by" in " ".join(said.out.split())


def test_what_is_kept_where_it_was_learned_says_so(hopbudget: Any, filled: Path) -> None:
    plan = hopbudget("allocate", filled, "--deadline", "p90", "--method", "mean", "--json").json
    said = hopbudget("allocate", filled, "--deadline", "p90", "--method", "mean")
    assert f"of the {plan['kept']['n']} it was learned from" in " ".join(said.out.split())


def test_runs_and_classes_are_in_the_plan(hopbudget: Any, filled: Path) -> None:
    plan = hopbudget("allocate", filled, "--deadline", "p90", "--run-by", "service.version", "--json").json
    assert plan["feasibility"]["runs"]["only_this"] is True
    said = hopbudget("allocate", filled, "--deadline", "p90", "--run-by", "service.version")
    assert "this configuration only" in said.out


def test_both_ends_can_bind(hopbudget: Any, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "p90", "--binds", "both", "--answer-deadline", "3s", "--json")
    assert said.code in (0, 1, 3)
    assert said.json["binds"] == "both"
    stream = said.json["stream"]
    assert stream["answer_s"] < stream["budget_s"]
    assert stream["p50_s"] > 1.0  # of the whole stream, not of the wait for its first token
    assert said.json["answer_deadline_s"] == 3.0


@pytest.mark.parametrize("extra", [["--binds", "both"], ["--answer-deadline", "3s"]])
def test_both_ends_need_both_deadlines(hopbudget: Any, filled: Path, extra: list[str]) -> None:
    said = hopbudget("allocate", filled, "--deadline", "p90", *extra)
    assert said.code == 2
    assert "go together" in said.err


def test_an_answer_deadline_past_the_deadline_is_usage(hopbudget: Any, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "3s", "--binds", "both", "--answer-deadline", "5s")
    assert said.code == 2
    assert "--answer-deadline 5.00 s is after the deadline, 3.00 s" in said.err


def test_a_conversation_can_be_the_unit(hopbudget: Any, filled: Path) -> None:
    plan = hopbudget("allocate", filled, "--deadline", "p90", "--unit", "conversation", "--json").json
    assert plan["learned_from"]["trajectories"] == 6
    assert plan["learned_from"]["unit"] == "conversation"
    assert "6 conversations" in hopbudget("allocate", filled, "--deadline", "p90", "--unit", "conversation").out


def test_a_half_life_is_a_duration(hopbudget: Any, filled: Path) -> None:
    plan = hopbudget("allocate", filled, "--deadline", "p90", "--half-life", "20min", "--json").json
    assert plan["learned_from"]["half_life_s"] == 1200.0
    assert plan["learned_from"]["effective"] < 60
    assert hopbudget("allocate", filled, "--deadline", "p90", "--half-life", "soon").code == 2


def test_a_deadline_must_be_given(hopbudget: Any, filled: Path) -> None:
    said = hopbudget("allocate", filled)
    assert said.code == 2
    assert "--deadline" in said.err


@pytest.mark.parametrize("text", ["plan:tokens=20", "search:scale=0.6", "drop:search", "fetch:scale=0", "drop:fetch"])
def test_a_change_says_what_it_does_and_what_it_assumes(hopbudget: Any, filled: Path, text: str) -> None:
    found = hopbudget("allocate", filled, "--deadline", "p80", "--what-if", text, "--json").json
    (row,) = found["what_if"]
    assert row["change"] == text
    assert row["after"]["share"] >= row["before"]["share"]
    assert row["min_deadline_after_s"] <= row["min_deadline_before_s"]
    assert "takes as long as it did" in row["assumption"]
    said = hopbudget("allocate", filled, "--deadline", "p80", "--what-if", text)
    assert "It assumes that" in said.out


def test_a_percentile_is_never_told_as_all(hopbudget: Any, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "3s", "--percentile", "99.99999")
    assert "p99.99999" in said.out and "99.99999% meet" in said.out
    assert "p100" not in said.out


@pytest.mark.parametrize(
    ("change", "said_why"), [("drop:verify", "nothing is named 'verify'"), ("plan:model=zeta", "no call of 'zeta'")]
)
def test_a_change_of_what_was_never_recorded_is_usage(hopbudget: Any, filled: Path, change: str, said_why: str) -> None:
    said = hopbudget("allocate", filled, "--deadline", "p80", "--what-if", change)
    assert said.code == 2
    assert said_why in said.err


@pytest.mark.parametrize("text", ["", "plan", "drop:", "plan:tokens=0", "plan:tokens=many", "plan:scale=-1", "a:b=1"])
def test_what_is_no_change_is_usage(text: str) -> None:
    with pytest.raises(UserError) as told:
        parse(text)
    assert told.value.exit_code == 2


def test_a_name_may_hold_colons() -> None:
    change = parse("agent:plan:model=gpt:4")
    assert (change.name, change.kind, change.value) == ("agent:plan", "model", "gpt:4")


def test_an_update_keeps_the_settings_and_shows_what_changed(hopbudget: Any, filled: Path, recorded_runs: Path) -> None:
    half = Path("half.jsonl")
    half.write_text("".join(recorded_runs.read_text().splitlines(keepends=True)[:30]))
    made = ["--deadline", "5s", "--percentile", "80", "--method", "mean", "--slots", "visit", "--out", "plan.toml"]
    hopbudget("allocate", half, *made)
    Path("plan.toml").write_text("# ours\n" + Path("plan.toml").read_text())
    said = hopbudget("allocate", filled, "--update", "plan.toml", "--json")
    assert {"what": "trajectories", "before": 30, "after": 60} in said.json["changes"]
    new = files.read(Path("plan.toml"))
    assert (new["deadline_s"], new["percentile"], new["method"], new["slot_kind"]) == (5.0, 80.0, "mean", "visit")
    assert new["learned_from"]["trajectories"] == 60
    assert Path("plan.toml").read_text().startswith("# ours\n")


@pytest.mark.parametrize(
    "settings",
    [
        ["--deadline", "5s"],
        ["--deadline", "p80"],
        ["--deadline", "p75", "--binds", "answer"],
        ["--deadline", "4.1234567s", "--binds", "both", "--answer-deadline", "1.23456789s"],
        ["--deadline", "p90", "--run-by", "service.version"],
    ],
)
def test_an_update_of_the_same_data_changes_nothing_not_even_the_id(
    hopbudget: Any, filled: Path, settings: list[str]
) -> None:
    hopbudget("allocate", filled, *settings, "--out", "plan.toml")
    said = hopbudget("allocate", filled, "--update", "plan.toml", "--out", "new.toml")
    assert "Nothing changed." in said.out
    old, new = files.read(Path("plan.toml")), files.read(Path("new.toml"))
    assert {key for key in old if old[key] != new[key]} == set()


def test_a_new_setting_wins_over_the_old_plan(hopbudget: Any, filled: Path) -> None:
    hopbudget("allocate", filled, "--deadline", "5s", "--out", "plan.toml")
    said = hopbudget("allocate", filled, "--update", "plan.toml", "--deadline", "6s", "--json")
    assert {"what": "deadline", "before": 5.0, "after": 6.0} in said.json["changes"]


def test_an_update_needs_a_plan(hopbudget: Any, filled: Path) -> None:
    assert hopbudget("allocate", filled, "--update", "nowhere.toml").code == 2


def test_an_update_never_overwrites_the_plan_of_another_workload(hopbudget: Any, filled: Path) -> None:
    hopbudget("allocate", filled, "--deadline", "5s", "--out", "plan.toml")
    text = Path("plan.toml").read_text()
    own = files.read(Path("plan.toml"))["workload"]
    ours = text.replace(f'workload = "{own}"', 'workload = "elsewhere"')
    Path("plan.toml").write_text(ours)
    said = hopbudget("allocate", filled, "--update", "plan.toml", "--workload", own)
    assert said.code == 2
    assert all(words in said.err for words in (repr(own), "'elsewhere'", "--out"))
    assert Path("plan.toml").read_text() == ours
    hopbudget("allocate", filled, "--update", "plan.toml", "--workload", own, "--out", "new.toml")
    assert files.read(Path("new.toml"))["workload"] == own


def test_slots_that_come_and_go_are_told() -> None:
    def plan(**slots: float) -> dict[str, Any]:
        rows = [{"slot": name, "budget_s": s} for name, s in slots.items()]
        return {"deadline_s": 4.0, "slots": rows, "work_s": 0.0, "method": "equal"}

    found = {line.what: (line.before, line.after) for line in difference(plan(a=4.0), plan(a=3.0, b=1.0))}
    assert found["slot a"] == (4.0, 3.0)
    assert found["slot b"] == (None, 1.0)
