"""A plan as an agent reads it: what it says, what it does not, and files that are none."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hopbudget.tracing.plan import Plan, PlanError

BARE = """
format = 1
id = "abc"
workload = "chat"
deadline_s = 10.0
percentile = 95.0
work_s = 1.5
[[slots]]
slot = "plan"
budget_s = 3.0
[[slots]]
slot = "answer"
budget_s = 5.5
[stream]
ttft_s = 0.8
"""

FULL: dict[str, Any] = {
    "format": 1,
    "deadline_s": 10.0,
    "max_steps": 4,
    "chance": {
        "base_rate": 0.9,
        "ranges": [1, 2, 4, 8, 16],
        "known": [False, True, True, False, False],
        "known_hint": [True, True, True, True, True],
        "mean_hop_s": 2.0,
        "hint": [0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        "visits": [1, 3],
        "reach": [0.8, 0.6],
        "remaining_s": [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]],
    },
    "steps": {"at": [0.5, 0.9], "hops": [1, 2, 4], "within_s": [[1.0, 2.0, 4.0], [2.0, 5.0]]},
    "tokens": [{"model": "m", "at": [0.9], "first_token_s": [1.0], "per_token_s": [0.5]}],
    "first_tokens": [
        {
            "model": "m",
            "from_tokens": 100,
            "up_to_tokens": 1000,
            "at_tokens": 500,
            "per_token": 0.001,
            "q95_s": 1.0,
            "q99_s": 2.0,
        },
        {"model": "m", "from_tokens": 100, "at_tokens": 2000, "per_token": 0.0, "q95_s": 4.0},
        {"model": "m", "sizes": "all", "q95_s": 2.0, "q99_s": 6.0},
    ],
    "caps": [{"hop": "answer", "tokens": 400}],
    "abort": {"pays": True, "visits": [1, 3], "latest_s": [9.0, 7.0], "hint_below": 0.2},
}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return path


def test_a_plan_with_budgets_alone_says_so_much_and_no_more(tmp_path: Path) -> None:
    plan = Plan.read(written(tmp_path, BARE))
    assert (plan.id, plan.workload, plan.format, plan.deadline_s, plan.percentile) == ("abc", "chat", 1, 10.0, 95.0)
    assert plan.slots == {"plan": 3.0, "answer": 5.5}
    assert (plan.work_s, plan.stream) == (1.5, {"ttft_s": 0.8})
    assert (plan.max_steps, plan.base_rate, plan.fingerprint, plan.aborts) == (None, None, {}, False)
    assert plan.chance(2, 1.0) is plan.chance(2, 1.0, 3.0) is None
    assert plan.steps_left(1.0) is plan.tokens_left("m", 1.0) is plan.first_token_after("m") is None
    assert plan.max_tokens("answer") is None
    assert plan.should_abort(9, 9.9) is False


def test_the_chance_is_read_straight_between_the_points_of_its_row() -> None:
    plan = Plan(FULL)
    # 4 s are left: three quarters of the way through row one, half way through row two
    assert plan.chance(2, 6.0) == pytest.approx(0.8 * 0.75)
    assert plan.chance(3, 6.0) == pytest.approx(0.6 * 0.5)
    assert plan.chance(2, 4.0) == 0.8
    assert plan.chance(2, 9.5) == 0.0
    assert plan.chance(2, 12.0) == 0.0


def test_a_range_that_is_not_known_has_no_chance() -> None:
    plan = Plan(FULL)
    assert plan.chance(1, 0.0) is plan.chance(8, 3.0) is plan.chance(400, 3.0) is None
    assert plan.base_rate == 0.9


def test_with_a_hint_the_logit_answers() -> None:
    plan = Plan(FULL)
    assert plan.chance(2, 6.0, 2.0) == pytest.approx(0.5)  # z = log(4 s left / (2 s * 2 hops)) = 0
    assert plan.chance(8, 6.0, 1.0) == pytest.approx(2 / 3)
    assert plan.chance(2, 10.0, 1.0) == 0.0


def test_steps_left_round_the_level_up_and_the_hops_down() -> None:
    plan = Plan(FULL)
    assert [plan.steps_left(elapsed) for elapsed in (0.0, 5.1, 8.1, 11.0)] == [2, 1, 0, 0]
    assert [plan.steps_left(elapsed, 0.4) for elapsed in (0.0, 7.0)] == [4, 2]
    assert plan.steps_left(0.0, 0.7) == 2
    assert plan.steps_left(0.0, 0.99) is None


def test_tokens_left_leave_time_for_the_first() -> None:
    plan = Plan(FULL)
    assert [plan.tokens_left("m", elapsed) for elapsed in (4.0, 9.0, 9.5)] == [11, 1, 0]
    assert plan.tokens_left("other", 4.0) is None
    assert plan.tokens_left("m", 4.0, 0.95) is None


def test_the_wait_for_a_first_token_follows_the_prompt() -> None:
    plan = Plan(FULL)
    assert plan.first_token_after("m", 600) == pytest.approx(2.0 * 1.1)
    assert plan.first_token_after("m", 10) == pytest.approx(2.0 * 0.6)  # as if it had a hundred
    assert plan.first_token_after("m", 5000, 0.95) == 4.0
    assert plan.first_token_after("m", 5000) is None  # too few for a Q99
    assert plan.first_token_after("m") == 6.0
    assert plan.first_token_after("m", q=0.5) == 2.0
    assert plan.first_token_after("m", q=0.999) is plan.first_token_after("other") is None


def test_a_cap_is_of_one_hop() -> None:
    assert Plan(FULL).max_tokens("answer") == 400
    assert Plan(FULL).max_tokens("plan") is None


def test_giving_up_goes_by_the_clock_or_by_the_hint() -> None:
    plan = Plan(FULL)
    assert plan.aborts
    assert [plan.should_abort(2, elapsed) for elapsed in (8.9, 9.1)] == [False, True]
    assert [plan.should_abort(5, elapsed) for elapsed in (6.9, 7.1)] == [False, True]
    assert plan.should_abort(2, 6.0, 50.0) and not plan.should_abort(2, 9.1, 0.5)


def test_a_rule_that_does_not_pay_never_gives_up() -> None:
    plan = Plan({**FULL, "abort": {**FULL["abort"], "pays": False}})
    assert not plan.aborts
    assert not plan.should_abort(2, 9.9) and not plan.should_abort(2, 9.9, 50.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("format = ", "is not a TOML file"),
        ("deadline_s = 2.0", "not a plan: it has no whole number `format`"),
        ("format = 99\ndeadline_s = 2.0", "format 99 is newer"),
        ("format = 1", "`deadline_s` must be a positive number"),
        ("format = 1\ndeadline_s = 0", "`deadline_s` must be a positive number, not 0"),
        ("format = 1\ndeadline_s = 2.0\nslots = 3", "`slots` must be an array of tables"),
        ("format = 1\ndeadline_s = 2.0\nchance = 3", "`chance` must be a table"),
        ("format = 1\ndeadline_s = 2.0\n[chance]\nbase_rate = 0.9", "`chance` is not as hopbudget writes it"),
        ("format = 1\ndeadline_s = 2.0\n[steps]\nat = [0.9]\nhops = [1]\nwithin_s = []", "differ in length"),
        ('format = 1\ndeadline_s = 2.0\n[[tokens]]\nmodel = "m"\nat = "x"', "`tokens` is not as hopbudget writes it"),
        ('format = 1\ndeadline_s = 2.0\n[[caps]]\nhop = "answer"', "`caps` is not as hopbudget writes it"),
    ],
)
def test_what_is_no_plan_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PlanError, match=says) as caught:
        Plan.read(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"can't read the plan .*No such file"):
        Plan.read(tmp_path / "plan.toml")


def test_reading_a_plan_loads_no_numpy(tmp_path: Path) -> None:
    path = written(tmp_path, BARE)
    code = (
        "import sys; from hopbudget.tracing.plan import Plan; lazy = 'tomllib' not in sys.modules; "
        f"Plan.read({str(path)!r}); print(lazy, sorted({{'numpy', 'scipy', 'tomlkit', 'duckdb'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == ["True", "[]\n"]
