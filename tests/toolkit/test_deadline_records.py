"""Deadlines from the running agent to the store, and from there to `report`, `explain` and the next plan."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hopbudget as hb
from hopbudget import testing
from hopbudget.recording.export import SpoolProcessor
from hopbudget.store import queries
from hopbudget.store.deadlines import held, of_trajectory
from hopbudget.store.duck import Store
from hopbudget.store.spool import spool_folder
from hopbudget.tracing import scope, terms
from hopbudget.tracing.plan import Plan

Run = Callable[..., Any]
PLAN = Plan({"format": 1, "id": "p-1", "deadline_s": 5.0, "work_s": 0.5, "slots": [{"slot": "plan", "budget_s": 1.0}]})
ROLE = testing.chat_chunk(role="assistant")
DONE = testing.chat_chunk(finish="stop")


class Agent:
    """Runs under a clock that it moves itself."""

    def __init__(self, clock: testing.FakeClock) -> None:
        self.clock = clock

    def hop(self, name: str, first_s: float, last_s: float, **limits: Any) -> None:
        """A hop with a stream: a role-only chunk at once, a token at `first_s`, another and the end at `last_s`."""
        script = [(0.0, ROLE), (first_s, ROLE), (first_s, testing.chat_chunk("a")), (last_s, testing.chat_chunk("b"))]
        with hb.hop(name, **limits):
            for _ in hb.watch(testing.ScriptedStream(self.clock, [*script, (last_s, DONE)])):
                pass

    def run(self, *steps: Any, mode: str = "deadline", plan: Plan | None = PLAN) -> None:
        """One trajectory of these steps: hops as dictionaries, work as seconds. What a limit raises ends it."""
        try:
            with hb.trajectory("agent", deadline_s=5.0, plan=plan, enforce=mode):
                for step in steps:
                    if isinstance(step, float):
                        with hb.work("tool"):
                            self.clock.sleep(step)
                    else:
                        self.hop(**step)
        except hb.DeadlineExceeded:
            pass


def step(name: str, first_s: float = 0.2, last_s: float = 0.8, **limits: Any) -> dict[str, Any]:
    return {"name": name, "first_s": first_s, "last_s": last_s, **limits}


LIMIT = (step("plan", 0.9, 1.0, first_token_s=0.5),)
DEADLINE = (step("plan"), 4.0, step("answer", 0.1, 0.9))
REFUSED = (step("plan"), 3.5, step("answer", refuse=1.0))
OBSERVED = (step("plan", 0.9, 1.5, first_token_s=0.5), step("answer", 3.6, 4.0))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store of 24 runs that came out well, and of one for each thing that can befall a run with a deadline."""
    path = tmp_path_factory.mktemp("deadlines") / "traces.duckdb"
    with pytest.MonkeyPatch.context() as patch, testing.recording() as seen:
        patch.chdir(path.parent)
        terms.look_again()
        provider: Any = scope.setup.provider
        spool = SpoolProcessor(spool_folder(path), delay_s=600)
        provider.add_span_processor(spool)
        agent = Agent(seen.clock)
        for number in range(24):
            agent.run(step("plan", last_s=0.5 + number / 60), 0.1, step("answer", last_s=0.6 + number / 40))
        agent.run(*LIMIT)
        agent.run(*DEADLINE)
        agent.run(*REFUSED)
        agent.run(*OBSERVED, mode="observe", plan=None)
        spool.flush()
    Store(path).drain()
    yield path
    terms.look_again()


@pytest.fixture(scope="module")
def told(stored: Path) -> list[dict[str, Any]]:
    """Of the last four: what is stored about the trajectory and its hops."""
    with Store(stored).reading() as con:
        rows = queries.trajectory_rows(con, queries.Where())[:4]
        return [queries.trajectory(con, row["trace_id"]) for row in reversed(rows)]


def hop_of(detail: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (hop for hop in detail["hops"] if hop["hop"] == name)
    return found


# --- in the store --------------------------------------------------------------------------------------------


def test_a_trajectory_keeps_its_deadline_its_plan_and_how_it_was_held(told: list[dict[str, Any]]) -> None:
    limit, _, _, observed = (detail["trajectory"] for detail in told)
    assert (limit["deadline_s"], limit["plan"]) == (5.0, "p-1")
    assert limit["attributes"]["hopbudget.enforce"] == "deadline"
    assert (observed["deadline_s"], observed["plan"]) == (5.0, None)
    assert observed["attributes"]["hopbudget.enforce"] == "observe"


def test_outcomes_and_interventions_are_what_befell_it(told: list[dict[str, Any]]) -> None:
    assert [detail["trajectory"]["outcome"] for detail in told] == ["timed_out", "timed_out", "refused", "ok"]
    assert [detail["trajectory"]["intervened"] for detail in told] == [True, True, True, False]


def test_each_hop_keeps_what_was_left_when_it_began_and_its_budget(told: list[dict[str, Any]]) -> None:
    deadline = told[1]
    assert hop_of(deadline, "plan")["remaining_s"] == pytest.approx(5.0)
    assert hop_of(deadline, "answer")["remaining_s"] == pytest.approx(0.2)
    assert (hop_of(deadline, "plan")["budget_s"], hop_of(deadline, "answer")["budget_s"]) == (1.0, None)


def test_the_limit_that_ended_a_hop_is_kept_and_one_that_would_have(told: list[dict[str, Any]]) -> None:
    limit, deadline, refused, observed = told
    assert (hop_of(limit, "plan")["outcome"], hop_of(limit, "plan")["limit_hit"]) == ("timed_out", "first_token")
    assert hop_of(deadline, "answer")["limit_hit"] == "completion"
    assert (hop_of(refused, "answer")["outcome"], hop_of(refused, "answer")["limit_hit"]) == ("refused", None)
    assert (hop_of(observed, "plan")["outcome"], hop_of(observed, "plan")["limit_hit"]) == ("ok", "first_token")


# --- over many -----------------------------------------------------------------------------------------------


def test_deadlines_limits_and_decisions_are_counted(stored: Path) -> None:
    with Store(stored).reading() as con:
        found = held(con, queries.Where())
    assert found == {
        "trajectories": 28,
        "with_deadline": 28,
        "met": 24,
        "missed": 3,
        "left_out": 1,
        "limits": {"deadline": 1, "first_token": 1},
        "beyond": {"deadline": 1, "first_token": 1},
        "refused": 1,
        "intervened": 3,
        "decisions": {"completion": 1, "first_token": 1, "refused": 1},
    }


def test_a_filter_counts_for_them_too(stored: Path) -> None:
    with Store(stored).reading() as con:
        found = held(con, queries.Where(attributes={"hopbudget.enforce": "observe"}))
    assert (found["with_deadline"], found["missed"], found["intervened"], found["decisions"]) == (1, 1, 0, {})


def test_report_says_it_in_words(hopbudget: Run, stored: Path) -> None:
    out = " ".join(hopbudget("report", stored).out.split())
    assert "28 trajectories had a deadline: 24 met it, 3 missed it, 1 cut short before it" in out
    assert "limits ended 2 hops (deadline 1, first token 1)" in out
    assert "2 hops (deadline 1, first token 1) went beyond a limit that was not held" in out
    assert "1 hop refused" in out
    assert "intervened in 3 of 28 (10.7%; the next plan leaves them out)" in out


def test_report_gives_the_same_as_json(hopbudget: Run, stored: Path) -> None:
    assert hopbudget("report", stored, "--json").json["deadlines"]["limits"] == {"deadline": 1, "first_token": 1}


def test_where_nothing_has_a_deadline_report_does_not_speak_of_any(hopbudget: Run, filled: Path) -> None:
    assert "Deadlines" not in hopbudget("report", filled).out


def test_the_next_plan_leaves_the_intervened_out_and_says_their_share(hopbudget: Run, stored: Path) -> None:
    asked = ("--workload", "agent", "--deadline", "5s", "--percentile", "50")
    said = hopbudget("allocate", stored, *asked, "--json")
    assert said.code == 0
    assert said.json["learned_from"]["intervened"] == pytest.approx(3 / 28, abs=1e-5)
    text = " ".join(hopbudget("allocate", stored, *asked).out.split())
    assert "10.7% of all were intervened in" in text


# --- of one --------------------------------------------------------------------------------------------------


def explained(hopbudget: Run, stored: Path, detail: dict[str, Any]) -> str:
    return hopbudget("explain", stored, detail["trajectory"]["trace_id"]).out


def test_explain_says_how_the_deadline_ended(hopbudget: Run, stored: Path, told: list[dict[str, Any]]) -> None:
    limit, deadline, refused, observed = (explained(hopbudget, stored, detail) for detail in told)
    assert "deadline 5.00 s, held (deadline), plan p-1: timed_out with 4.10 s left" in limit
    assert "deadline 5.00 s, held (deadline), plan p-1: missed by" in deadline
    assert "refused with 700 ms left" in refused
    assert "deadline 5.00 s, observed: missed by 500 ms" in observed


def test_explain_says_what_was_done_about_it(hopbudget: Run, stored: Path, told: list[dict[str, Any]]) -> None:
    limit, deadline, refused, observed = (explained(hopbudget, stored, detail) for detail in told)
    assert "intervened: plan: first_token" in limit
    assert "intervened: answer: deadline" in deadline
    assert "intervened: answer: refused" in refused
    assert "intervened" not in observed


def test_explain_shows_what_each_hop_had_left(hopbudget: Run, stored: Path, told: list[dict[str, Any]]) -> None:
    limit, deadline, refused, observed = (
        [" ".join(line.split()) for line in explained(hopbudget, stored, detail).splitlines()] for detail in told
    )
    assert "plan 5.00 s 1.00 s 900 ms ended by its first token limit" in limit
    assert "plan 5.00 s 1.00 s 800 ms" in deadline
    assert any(line.startswith("answer 200 ms") and line.endswith("ended by the deadline") for line in deadline)
    assert any(line.startswith("answer 700 ms") and line.endswith("not sent") for line in refused)
    assert "plan 5.00 s 1.50 s beyond its first token limit, not held" in observed


def test_explain_fits_80_columns_and_names_outcomes_whole(
    hopbudget: Run, stored: Path, told: list[dict[str, Any]]
) -> None:
    for detail in told:
        out = explained(hopbudget, stored, detail)
        assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
        assert "…" not in out


def test_explain_gives_the_same_as_json(hopbudget: Run, stored: Path, told: list[dict[str, Any]]) -> None:
    refused = told[2]
    said = hopbudget("explain", stored, refused["trajectory"]["trace_id"], "--json").json
    assert said["deadline"] == json.loads(json.dumps(of_trajectory(refused)))
    assert (said["deadline"]["ended"], said["deadline"]["decisions"]) == ("missed", ["answer: refused"])


def test_without_a_deadline_explain_does_not_speak_of_one(hopbudget: Run, filled: Path) -> None:
    slowest = hopbudget("explain", filled, "--slowest", "1", "--json").json["trajectories"][0]["trace_id"]
    assert "deadline" not in hopbudget("explain", filled, slowest).out


def test_decisions_that_are_no_list_are_none() -> None:
    row = {"deadline_s": None, "duration_s": 1.0, "outcome": "ok", "plan": None, "intervened": True}
    found = of_trajectory({"trajectory": {**row, "attributes": {"hopbudget.decisions": "{broken"}}, "hops": []})
    assert (found["decisions"], found["ended"]) == ([], None)
