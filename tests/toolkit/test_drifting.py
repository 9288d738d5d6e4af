"""`hopbudget check --plan`: has what a plan was learned from changed?"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Profile, allocate
from hopbudget.budgets.run_time import knowledge
from hopbudget.plans import files
from hopbudget.store.duck import Store
from hopbudget.store.queries import Where, profile

Run = Callable[..., Any]

T0 = 1_700_000_000


def line(random: np.random.Generator, number: int, *, tokens: float = 1.0, model: str = "m") -> str:
    """One trajectory of two hops, a minute after the one before."""
    trace, at = f"{number + 1:032x}", T0 + 0.5 + 60 * number

    def span(name: str, start: float, end: float, parent: str | None, attributes: dict[str, Any]) -> dict[str, Any]:
        pairs = [
            {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": value}}
            for key, value in attributes.items()
        ]
        more = {"parentSpanId": f"{1:016x}"} if parent else {}
        times = {"startTimeUnixNano": str(int(start * 1e9)), "endTimeUnixNano": str(int(end * 1e9))}
        return {"traceId": trace, "spanId": parent or f"{1:016x}", "name": name, "attributes": pairs, **more, **times}

    spans, clock = [], float(at)
    for number_of_hop in (2, 3):
        count = int(tokens * random.integers(20, 300))
        begun, clock = clock, clock + 0.3 + 0.01 * count * float(random.lognormal(0, 0.1))
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}
        usage = {"gen_ai.usage.input_tokens": 500, "gen_ai.usage.output_tokens": count}
        spans.append(span(f"chat {model}", begun, clock, f"{number_of_hop:016x}", attributes | usage))
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot"}
    spans.append(span("invoke_agent bot", at, clock, None, agent))
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def lines(seed: int, first: int, count: int, **more: Any) -> list[str]:
    random = np.random.default_rng(seed)
    return [line(random, first + index, **more) for index in range(count)]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a plan was learned from, and the plan."""
    folder = tmp_path_factory.mktemp("learned")
    (folder / "old.jsonl").write_text("\n".join(lines(0, 0, 300)))
    Store(folder / "traces.duckdb").import_paths([str(folder / "old.jsonl")])
    with Store(folder / "traces.duckdb").reading() as con:
        found: Profile = profile(con, Where())
    files.write(folder / "plan.toml", files.plan_dict(allocate(found, 5.0), "bot", knowledge.learn(found, 5.0)))
    return folder


def test_others_like_those_it_was_learned_from_have_not_changed(hopbudget: Run, learned: Path) -> None:
    Path("others.jsonl").write_text("\n".join(lines(1, 5000, 200)))
    said = hopbudget("check", "others.jsonl", "--plan", learned / "plan.toml")
    assert said.code == 0
    assert "Nothing has changed" in said.out


def test_longer_answers_are_named_with_the_trajectory_that_they_began_with(hopbudget: Run, learned: Path) -> None:
    Path("new.jsonl").write_text("\n".join([*lines(1, 5000, 100), *lines(2, 5100, 100, tokens=4.0)]))
    told = hopbudget("check", "new.jsonl", "--plan", learned / "plan.toml", "--json")
    assert told.code == 1
    answers = next(change for change in told.json["changes"] if change["cause"] == "answers")
    assert answers["way"] == "more"
    assert int(answers["since"]["trace_id"], 16) == pytest.approx(5101, abs=8)
    assert told.json["changed"] and told.json["trajectories"] == 200
    drawn = hopbudget("check", "new.jsonl", "--plan", learned / "plan.toml")
    assert f"longer answers {answers['since']['trace_id']}" in " ".join(drawn.out.split())
    assert max(map(len, drawn.out.splitlines())) <= 80


def test_a_new_model_is_a_change_by_itself(hopbudget: Run, learned: Path) -> None:
    Path("swapped.jsonl").write_text("\n".join(lines(1, 5000, 60, model="other")))
    said = hopbudget("check", "swapped.jsonl", "--plan", learned / "plan.toml")
    assert said.code == 1
    assert "New model `other`" in said.out


def test_of_its_own_source_only_later_trajectories_are_looked_at(hopbudget: Run, learned: Path) -> None:
    Path("more.jsonl").write_text("\n".join([*lines(0, 0, 300), *lines(3, 400, 40)]))
    told = hopbudget("check", "more.jsonl", "--plan", learned / "plan.toml", "--json")
    assert (told.code, told.json["trajectories"], told.json["newer"]) == (0, 40, True)


def test_where_nothing_is_later_what_it_was_learned_from_is_looked_at(hopbudget: Run, learned: Path) -> None:
    told = hopbudget("check", learned / "traces.duckdb", "--plan", learned / "plan.toml", "--json")
    assert (told.code, told.json["trajectories"], told.json["newer"]) == (0, 300, False)


def test_a_recording_that_was_not_steady_itself_cant_say(hopbudget: Run) -> None:
    Path("unsteady.jsonl").write_text("\n".join([*lines(0, 0, 250), *lines(2, 250, 50, tokens=4.0)]))
    assert hopbudget("allocate", "unsteady.jsonl", "--deadline", "20s", "--out", "plan.toml").code == 0
    said = hopbudget("check", "unsteady.jsonl", "--plan", "plan.toml")
    assert said.code == 3
    assert "longer answers" in said.out
    assert "was not steady itself" in " ".join(said.out.split())
    told = hopbudget("check", "unsteady.jsonl", "--plan", "plan.toml", "--json")
    assert (told.code, told.json["newer"], told.json["changed"]) == (3, False, None)
    assert told.json["changes"]


def test_the_advice_names_the_plan(hopbudget: Run, learned: Path) -> None:
    Path("swapped.jsonl").write_text("\n".join(lines(1, 5000, 60, model="other")))
    Path("plan.toml").write_text((learned / "plan.toml").read_text())
    said = hopbudget("check", "swapped.jsonl", "--plan", "plan.toml")
    assert "hopbudget allocate --update plan.toml" in said.out


def test_too_few_later_ones_cant_say(hopbudget: Run, learned: Path) -> None:
    Path("few.jsonl").write_text("\n".join([*lines(0, 0, 300), *lines(3, 400, 5)]))
    said = hopbudget("check", "few.jsonl", "--plan", learned / "plan.toml")
    assert said.code == 3
    assert "Too few trajectories" in said.err


def test_a_plan_without_what_to_compare_with_says_so(hopbudget: Run, learned: Path) -> None:
    text = (learned / "plan.toml").read_text()
    Path("old-plan.toml").write_text(text[: text.index("[drift]")])
    said = hopbudget("check", learned / "traces.duckdb", "--plan", "old-plan.toml")
    assert said.code == 3
    assert "hopbudget allocate" in said.err
