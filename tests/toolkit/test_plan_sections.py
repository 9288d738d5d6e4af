"""What a plan holds for the agent that runs: written, read again, and the same answers as the arrays gave."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopbudget import budgets
from hopbudget.budgets.expectations.first_tokens import after_s
from hopbudget.budgets.run_time import knowledge as knowing
from hopbudget.budgets.run_time.aborting import Abort, Trial
from hopbudget.budgets.run_time.chance import Chance
from hopbudget.budgets.run_time.fits import Steps
from hopbudget.budgets.run_time.knowledge import Knowledge
from hopbudget.budgets.run_time.suffix import Starts
from hopbudget.plans import files
from hopbudget.plans.values import PLAN_KEYS, ROW_KEYS, SLOT_KEYS, TABLE_KEYS
from hopbudget.reports.reading import Selection
from hopbudget.store import queries
from hopbudget.tracing.plan import Plan

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plan.md"
SURE = Trial(0.1, 0.01, 0.002, 0.001, 60)


class Made(NamedTuple):
    """One plan in three forms."""

    knowledge: Knowledge
    content: dict[str, Any]
    path: Path


@pytest.fixture(scope="module")
def made(recorded_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A plan of the small recording, in which everything is said: whether it ought to be is another test's matter."""
    with Selection((str(recorded_runs),)).open() as (con, where):
        profile = queries.profile(con, where)
    deadline_s = budgets.deadline_at(profile, 80)
    found = knowing.learn(profile, deadline_s)
    assert found.chance is not None
    sure = replace(found.chance, known=(True,) * 5, known_hint=(True,) * 5)
    latest = tuple(round(t, 4) for t in sure.bank.latest_s(0.2, found.deadline_s))
    rule = Abort(sure.bank.visits, latest, 0.3, SURE, SURE)
    found = replace(found, chance=sure, abort=rule)
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    content = files.plan_dict(budgets.allocate(profile, deadline_s), "research", found)
    files.write(path, content)
    return Made(found, content, path)


@pytest.fixture(scope="module")
def plan(made: Made) -> Plan:
    """What an agent reads from the file."""
    return Plan.read(made.path)


def test_a_plan_with_all_sections_reads_back_as_it_was_written(made: Made) -> None:
    assert files.read(made.path) == made.content


def test_the_sections_turn_back_into_what_was_learned(made: Made) -> None:
    read = files.read(made.path)
    known = made.knowledge
    assert known.steps is not None and known.chance is not None
    assert Steps.from_plan(read["steps"], read["deadline_s"]) == known.steps
    again = Chance.from_plan(read["chance"], read["deadline_s"])
    assert (again.bank, again.hint, again.logit, again.known) == (
        known.chance.bank,
        known.chance.hint,
        known.chance.logit,
        known.chance.known,
    )
    assert Abort.from_plan(read["abort"]) == known.abort


def test_a_plan_stays_readable(made: Made) -> None:
    text = made.path.read_text()
    assert len(text.splitlines()) < 300
    assert len(text) < 40_000
    assert "inf" not in re.sub(r"infeasible|information", "", text)
    assert "nan" not in text.lower().replace("finance", "")


def test_a_person_keeps_what_they_put_into_a_section(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(made.path.read_text().replace("[chance]", "[chance]\nshown_to_users = true # since May"))
    files.write(path, made.content)
    assert "shown_to_users = true # since May" in path.read_text()
    assert files.read(path)["chance"]["shown_to_users"] is True


def test_sections_that_are_no_longer_known_leave_the_file(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(made.path.read_text())
    bare = {key: None for key in made.content if key not in {"slots", "format", "deadline_s"}}
    files.write(path, {**made.content, **bare})
    read = files.read(path)
    assert all(not read[key] for key in ("chance", "steps", "abort", "caps", "tokens", "expectations", "max_steps"))


# --- the same answers -----------------------------------------------------------------------------------------

visits = st.integers(1, 40)
shares = st.floats(0.0, 1.3)
hints = st.one_of(st.none(), st.floats(0.0, 50.0))
levels = st.sampled_from([0.3, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99])


@settings(max_examples=300)
@given(visit=visits, share=shares, hint=hints)
def test_the_chance_is_the_same(made: Made, plan: Plan, visit: int, share: float, hint: float | None) -> None:
    elapsed_s = share * plan.deadline_s
    assert made.knowledge.chance is not None
    given_hint = None if hint is None else np.array([hint])
    wanted = made.knowledge.chance.said(np.array([visit]), np.array([elapsed_s]), given_hint)[0]
    assert plan.chance(visit, elapsed_s, hint) == pytest.approx(wanted, abs=1e-9)


@settings(max_examples=300)
@given(visit=visits, share=shares, hint=hints)
def test_giving_up_is_the_same(made: Made, plan: Plan, visit: int, share: float, hint: float | None) -> None:
    elapsed_s = share * plan.deadline_s
    rule, chance = made.knowledge.abort, made.knowledge.chance
    assert rule is not None and chance is not None
    one, nothing = np.array([visit]), np.array([0.0])
    state = Starts(one, one, np.array([elapsed_s]), nothing, np.array([False]), one, nothing)
    wanted = rule.gives_up(state) if hint is None else rule.gives_up_with(chance, state, np.array([hint]))
    assert plan.should_abort(visit, elapsed_s, hint) == bool(wanted[0])


@given(share=shares, at=levels)
def test_steps_left_are_the_same(made: Made, plan: Plan, share: float, at: float) -> None:
    assert made.knowledge.steps is not None
    assert plan.steps_left(share * plan.deadline_s, at) == made.knowledge.steps.left(share * plan.deadline_s, at)


@given(share=shares, at=levels)
def test_tokens_left_are_the_same(made: Made, plan: Plan, share: float, at: float) -> None:
    (pace,) = made.knowledge.tokens
    elapsed_s = share * plan.deadline_s
    assert plan.tokens_left("small", elapsed_s, at) == pace.left(plan.deadline_s - elapsed_s, at)


@given(tokens=st.one_of(st.none(), st.floats(0, 1e6)), q=st.sampled_from([0.5, 0.95, 0.97, 0.99, 0.999]))
def test_the_wait_for_a_first_token_is_the_same(made: Made, plan: Plan, tokens: float | None, q: float) -> None:
    wanted = after_s(made.knowledge.first_tokens.to_plan(), "small", tokens, q)
    assert plan.first_token_after("small", tokens, q) == pytest.approx(wanted)


def test_what_the_plan_says_of_the_whole_is_the_same(made: Made, plan: Plan) -> None:
    known = made.knowledge
    assert known.chance is not None
    assert (plan.max_steps, plan.base_rate, plan.aborts) == (known.max_steps, known.chance.base_rate, True)
    assert plan.fingerprint["models"] == ["small"]
    assert set(plan.fingerprint["hops"]) == {"plan", "search", "answer"}
    assert {cap.hop: cap.tokens for cap in known.caps} == {cap.hop: plan.max_tokens(cap.hop) for cap in known.caps}
    assert math.fsum(plan.slots.values()) <= plan.deadline_s


def test_notes_say_when_nothing_is_known_and_nothing_pays(made: Made) -> None:
    known = made.knowledge
    assert known.chance is not None and known.abort is not None
    silent = replace(known.chance, known=(False,) * 5, known_hint=(False,) * 5)
    off = replace(known.abort, latest_s=None, hint_below=None)
    notes = " ".join(replace(known, chance=silent, abort=off).notes)
    assert "no information yet" in notes
    assert "no rule for giving up early pays" in notes
    assert known.notes == ()


# --- the page -------------------------------------------------------------------------------------------------


def documented() -> dict[str, set[str]]:
    """Section of docs/plan.md to the keys in its table."""
    found: dict[str, set[str]] = {}
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title = section.splitlines()[0].strip("`[] ")
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        found[title] = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    return found


def keys_of(value: Any) -> Iterator[str]:
    """Every key in rows and tables within a section."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key != "left_out":
                yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


def test_the_page_names_every_key_that_is_written(made: Made) -> None:
    pages = documented()
    assert set(PLAN_KEYS) <= pages["Top level"]
    assert set(SLOT_KEYS) <= pages["slots"]
    for name in (*TABLE_KEYS, *ROW_KEYS):
        written = {*TABLE_KEYS.get(name, ()), *keys_of(made.content[name])}
        assert written <= pages[name], f"{name}: {sorted(written - pages[name])} stand in no table of docs/plan.md"


def test_everything_that_can_be_written_is_a_known_key(made: Made) -> None:
    sections = made.knowledge.to_plan()
    for name in ("answer", "steps", "chance", "abort", "fingerprint", "drift"):
        assert set(sections[name] or ()) <= set(TABLE_KEYS[name])
    assert set(ROW_KEYS) <= set(sections)
