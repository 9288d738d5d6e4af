"""The page of budgets: a deadline, whether it can be met, what each part may take, what fits."""

import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from hopbudget import budgets, cli
from hopbudget.app import data
from hopbudget.app.data import Question, Scope, attained, plan_file, source, usual_method
from hopbudget.budgets.feasibility.whatif import Change, what_if
from hopbudget.budgets.run_time import caps, fits, tokens
from hopbudget.units import count, seconds, share

OpenPage = Callable[..., AppTest]
Drawn = Callable[[AppTest, str], dict[str, Any]]
Marks = Callable[[dict[str, Any], str], list[dict[str, Any]]]
Figures = Callable[[AppTest], dict[str, str]]


def plan_of(profile: budgets.Profile, **how: Any) -> budgets.Allocation:
    deadline_s = budgets.deadline_at(profile, 90, how.get("binds", "last"))
    return budgets.allocate(profile, deadline_s, **how)


def test_the_plans_figures_are_those_of_allocate(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, figures: Figures
) -> None:
    opened = open_page(recorded_store, "budgets")
    shown = figures(opened)

    plan = plan_of(recorded_profile)
    assert shown[f"Meet {seconds(plan.deadline_s)}"] == share(plan.feasibility.p_deadline)
    assert shown["Deadline that 90% meet"] == seconds(plan.feasibility.min_deadline_s)
    assert plan.auto is not None
    assert shown["Keep all budgets too"] == share(plan.auto.success.share)
    assert any(f"`auto` took `{plan.auto.method}`" in text.value for text in opened.caption)
    assert shown["Verdict for 90%"] == plan.feasibility.verdict.capitalize()
    assert plan.stream is not None
    assert shown["First token within (TTFT)"] == seconds(plan.stream.ttft_s)
    assert shown["Then a token every (TPOT)"] == seconds(plan.stream.tpot_s)
    assert shown["Up to (N)"] == f"{count(plan.stream.tokens or 0)} tokens"


def test_too_few_for_an_interval_is_not_told_as_failures(open_page: OpenPage, tmp_path: Path, write_runs: Any) -> None:
    opened = open_page(write_runs(tmp_path, {"ab": "ok"}), "budgets")

    captions = [text.value for text in opened.caption]
    assert "too few for a 95% interval" in captions
    assert not any("so many failed" in text for text in captions)


@pytest.mark.parametrize("name", ["budgets", "breaches"])
def test_an_attained_percentile_is_told_from_overviews(
    open_page: OpenPage, tmp_path: Path, write_runs: Any, name: str
) -> None:
    store = write_runs(tmp_path, {"a": "ok", "b": "ok", "c": "ok"})

    said = " ".join(text.value for text in open_page(store, name, deadline="p90").caption)
    assert "4.00 s is attained" in said
    assert "Overview's p90, 3.80 s, is interpolated" in said
    assert "interpolated" in " ".join(text.value for text in open_page(store).caption)
    assert "is attained" not in " ".join(text.value for text in open_page(store, name, deadline="4s").caption)


def test_a_percentile_of_first_answer_tokens_is_not_compared_with_overviews(
    open_page: OpenPage, recorded_store: Path
) -> None:
    opened = open_page(recorded_store, "budgets", deadline="p90", binds="answer")

    assert not opened.exception
    assert not any("is attained" in text.value for text in opened.caption)


def test_with_many_trajectories_the_method_is_a_quicker_one_and_it_says_so(
    open_page: OpenPage, recorded_store: Path, monkeypatch: pytest.MonkeyPatch, go: Callable[[AppTest, str], AppTest]
) -> None:
    opened = open_page(recorded_store, "budgets")
    assert opened.selectbox(key="method").value == "auto"

    monkeypatch.setattr(data, "AUTO_UP_TO", 10)
    opened.run()
    assert opened.selectbox(key="method").value == "independent"
    assert any("`hopbudget allocate` takes `auto`" in text.value for text in opened.caption)

    opened.selectbox(key="method").set_value("auto").run()
    assert go(go(opened, "breaches"), "budgets").selectbox(key="method").value == "auto"


def test_the_command_beside_the_plan_writes_the_file_that_is_downloaded(
    open_page: OpenPage, recorded_store: Path, tmp_path: Path
) -> None:
    address = {"workload": "research", "where": "outcome=ok", "slots": "visit", "percentile": "95"}
    opened = open_page(recorded_store, "budgets", deadline="p75", **address)
    said = " ".join(text.value for text in opened.caption)
    (command,) = re.findall(r"`(hopbudget allocate [^`]*)` gives this plan", said)

    cli.run([*shlex.split(command)[1:], "--out", str(tmp_path / "plan.toml")])

    now = source(recorded_store)
    assert now is not None
    scope = Scope(now, "research", (("outcome", "ok"),))
    question = Question(attained(scope, "last", 75), 95.0, "last", usual_method(scope), "visit")
    assert tomllib.loads(plan_file(scope, question)) == tomllib.loads((tmp_path / "plan.toml").read_text())


def test_moving_the_deadline_changes_the_budgets_and_they_still_fill_it(
    open_page: OpenPage, recorded_store: Path, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store, "budgets")
    widths = []
    for deadline, deadline_s in (("p50", None), ("6s", 6.0), ("p99", None)):
        opened.select_slider(key="deadline").set_value(deadline).run()
        assert not opened.exception
        bars = marks(drawn(opened, "Budgets: "), "bar")
        assert [bar["s"] for bar in bars][1:] == pytest.approx([bar["end"] for bar in bars][:-1])
        widths.append(bars[-1]["end"])
        if deadline_s is not None:
            assert bars[-1]["end"] == pytest.approx(deadline_s)
    assert widths == sorted(set(widths))


@pytest.mark.parametrize(
    ("key", "choice"), [("method", "equal"), ("method", "equal_risk"), ("slots", "visit"), ("binds", "answer")]
)
def test_how_the_time_is_split_can_be_chosen(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, drawn: Drawn, key: str, choice: str
) -> None:
    opened = open_page(recorded_store, "budgets")
    opened.selectbox(key=key).set_value(choice).run()

    assert not opened.exception
    told = drawn(opened, "Budgets: ")["description"]
    for slot in plan_of(recorded_profile, **{key: choice}).slots:
        assert f"{slot.slot} {seconds(slot.budget_s)}" in told


def test_the_percentile_sets_the_smallest_deadline(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, figures: Figures
) -> None:
    opened = open_page(recorded_store, "budgets", percentile="50")

    assert figures(opened)["Deadline that 50% meet"] == seconds(budgets.deadline_at(recorded_profile, 50))


def test_the_curve_goes_through_the_deadlines_own_share(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(recorded_store, "budgets", deadline="5s")

    points = marks(drawn(opened, "Feasibility"), "line")
    shares = [point["share"] for point in points]
    assert shares == sorted(shares)
    before = max((point for point in points if point["s"] <= 5.0), key=lambda point: point["s"])
    after = min((point for point in points if point["s"] >= 5.0), key=lambda point: point["s"])
    plan = budgets.allocate(recorded_profile, 5.0)
    assert before["share"] <= plan.feasibility.p_deadline <= after["share"]
    assert before["low"] < before["share"] < before["high"]


def test_the_steps_that_fit_are_those_of_the_plan(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, figures: Figures
) -> None:
    shown = figures(open_page(recorded_store, "budgets", deadline="5s"))

    learned = fits.learn(recorded_profile, 5.0)
    assert learned is not None
    assert shown["Steps (hops)"] == str(learned.left(0.0, 0.9))


def test_a_deadline_in_the_address_need_not_be_on_the_slider(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, "budgets", deadline="4321ms")

    assert opened.select_slider(key="deadline").value == "4321ms"
    assert any(header.value.startswith("4.32 s") for header in opened.subheader)


def test_a_deadline_that_means_nothing_is_told(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, "budgets", deadline="soon")

    assert not opened.exception
    assert any("'soon'" in text.value for text in opened.caption)


def test_a_deadline_chosen_here_is_the_one_of_the_page_of_breaches(
    open_page: OpenPage, recorded_store: Path, go: Callable[[AppTest, str], AppTest]
) -> None:
    opened = open_page(recorded_store, "budgets")
    opened.select_slider(key="deadline").set_value("4s").run()

    assert go(opened, "breaches").select_slider(key="deadline").value == "4s"


def test_a_link_opens_the_same_view(open_page: OpenPage, recorded_store: Path, figures: Figures) -> None:
    first = open_page(recorded_store, "budgets")
    first.select_slider(key="deadline").set_value("4s")
    first.selectbox(key="slots").set_value("visit")
    first.run()
    address = {key: str(value) for key, value in first.query_params.items()}

    second = open_page(recorded_store, "budgets", **address)

    assert address["deadline"] == "4s"
    assert figures(second) == figures(first)


def test_the_downloaded_file_is_a_whole_plan(recorded_store: Path) -> None:
    now = source(recorded_store)
    assert now is not None
    question = Question(4.0, 90.0, "last", "independent", "name")

    plan = tomllib.loads(plan_file(Scope(now, "research"), question))

    given_s = sum(slot["budget_s"] for slot in plan["slots"]) + plan["work_s"] + plan["stream"]["budget_s"]
    assert given_s == pytest.approx(4.0, abs=1e-4)
    assert plan["max_steps"] > 0
    assert plan["fingerprint"]


def test_what_if_is_worked_out_for_the_chosen_hop(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile, figures: Figures
) -> None:
    opened = open_page(recorded_store, "budgets", deadline="5s", place="answer", change="scale", to="0.5")

    assert not opened.exception
    found = what_if(recorded_profile, Change("scale", "answer", 0.5), 5.0)
    shown = figures(opened)
    assert shown["Would meet 5.00 s"] == share(found.after.share)
    assert shown["Deadline that 90% would meet"] == seconds(found.min_after_s)
    assert found.after.share > found.before.share


@pytest.mark.parametrize(("change", "to"), [("tokens", "32"), ("model", "small"), ("drop", None)])
def test_other_changes_have_an_answer_too(
    open_page: OpenPage, recorded_store: Path, change: str, to: str | None
) -> None:
    address = {"place": "answer", "change": change} | ({"to": to} if to is not None else {})
    opened = open_page(recorded_store, "budgets", **address)

    assert not opened.exception
    assert any("would meet" in figure.label for figure in opened.metric)


def test_a_works_name_offers_only_what_a_work_can_do(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, "budgets", place="fetch")

    assert not opened.exception
    assert len(opened.selectbox(key="change").options) == 2


def test_caps_that_would_have_cut_no_answer_are_not_listed(
    open_page: OpenPage, recorded_store: Path, recorded_profile: budgets.Profile
) -> None:
    opened = open_page(recorded_store, "budgets", deadline="p90")

    deadline_s = budgets.deadline_at(recorded_profile, 90, "last")
    found = caps.learn(recorded_profile, deadline_s, tokens.learn(recorded_profile))
    assert found
    assert not any(cap.cuts for cap in found)
    assert not [frame for frame in opened.dataframe if "max_tokens" in frame.value.columns]
