"""Why a trajectory took longer than usual."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopbudget.budgets import CannotAllocateError, Part, Profile, explain

Build = Callable[..., Profile]


def hop(name: str, seconds: float, **more: Any) -> tuple[str, dict[str, Any]]:
    return "hop", {"hop": name, "duration_s": seconds, **more}


def work(name: str, seconds: float, **more: Any) -> tuple[str, dict[str, Any]]:
    return "work", {"work": name, "duration_s": seconds, **more}


def usual(count: int = 41) -> list[dict[str, Any]]:
    steps = [hop("plan", 1.0), work("search", 0.5), hop("answer", 2.0)]
    return [{"steps": steps} for _ in range(count)]


MEASURED = (
    "ttft_s", "attempt_ttft_s", "backoff_s", "stalled_s", "consumer_s", "client_lag_s", "cached_tokens",
    "queue_s", "prefill_s", "server_ttft_s",
)  # fmt: skip
measurement = st.one_of(st.just(np.nan), st.integers(0, 20).map(lambda n: n / 4))

step = st.one_of(
    st.builds(
        lambda name, seconds, tokens, start, measured, how: hop(
            name,
            seconds / 4,
            output_tokens=float(tokens) if tokens else np.nan,
            input_tokens=float(10 * tokens) if tokens else np.nan,
            **dict(zip(MEASURED, measured, strict=True)),
            **({"started_s": start / 2} if start is not None else {}),
            **how,
        ),
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 40),
        st.integers(0, 50),
        st.one_of(st.none(), st.integers(0, 10)),
        st.tuples(*[measurement] * len(MEASURED)),
        st.fixed_dictionaries(
            {"streamed": st.booleans(), "outcome": st.sampled_from(["ok", "ok", "failed", "timed_out"])}
        ),
    ),
    st.builds(
        lambda name, seconds, start: work(name, seconds / 4, **({"started_s": start / 2} if start is not None else {})),
        st.sampled_from(["t", "u"]),
        st.integers(0, 20),
        st.one_of(st.none(), st.integers(0, 10)),
    ),
)
trajectory = st.fixed_dictionaries(
    {"steps": st.lists(step, max_size=8), "outcome": st.sampled_from(["ok", "ok", "truncated", "failed", "timed_out"])}
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(rows=st.lists(trajectory, min_size=1, max_size=12))
def test_the_parts_of_every_trajectory_add_up_to_its_excess(profile_of: Build, rows: list[dict[str, Any]]) -> None:
    profile = profile_of([*rows, {"steps": [hop("a", 1.0)]}])
    causes = explain(profile)
    for row in range(len(profile)):
        total = sum(part.seconds for part in causes.parts(row))
        assert total == pytest.approx(causes.excess_s[row], abs=1e-6)


def parts_of(profile: Profile, row: int) -> dict[tuple[str, str], Part]:
    return {(part.kind, part.name): part for part in explain(profile).parts(row)}


def test_a_trajectory_like_the_reference_has_no_excess(profile_of: Build) -> None:
    causes = explain(profile_of(usual()))
    assert causes.excess_s == pytest.approx(0)
    assert causes.parts(0) == []


def test_more_visits_are_counted_and_cost_what_a_visit_usually_costs(profile_of: Build) -> None:
    late = {"steps": [hop("plan", 1.0)] * 3 + [work("search", 0.5), hop("answer", 2.0)]}
    parts = parts_of(profile_of([*usual(), late]), 41)
    assert parts["visits", "plan"].seconds == pytest.approx(2.0)
    assert parts["visits", "plan"].count == pytest.approx(2.0)
    assert parts["visits", "plan"].detail == "2 more `plan` visits"


def test_unlike_hops_are_compared_with_their_own_name(profile_of: Build) -> None:
    late = {"steps": [hop("plan", 1.0), work("search", 0.5), hop("answer", 2.0), hop("answer", 2.0)]}
    parts = parts_of(profile_of([*usual(), late]), 41)
    assert list(parts) == [("visits", "answer")]
    assert parts["visits", "answer"].seconds == pytest.approx(2.0)


def test_a_longer_answer_is_told_from_a_slow_provider(profile_of: Build) -> None:
    random = np.random.default_rng(0)

    def told(tokens: float, extra: float = 0.0) -> dict[str, Any]:
        return {"steps": [hop("answer", 0.5 + 0.01 * tokens + extra, output_tokens=tokens, input_tokens=100.0)]}

    normal = [told(float(n)) for n in random.integers(90, 111, 60)]
    parts = parts_of(profile_of([*normal, told(400.0), told(100.0, extra=3.0)]), 60)
    assert parts["answers", "answer"].seconds == pytest.approx(3.0, abs=0.1)
    assert parts["answers", "answer"].count == pytest.approx(300, abs=10)
    parts = parts_of(profile_of([*normal, told(400.0), told(100.0, extra=3.0)]), 61)
    assert parts["pace", "answer"].seconds == pytest.approx(3.0, abs=0.1)


def test_a_late_first_token_is_a_cause_of_its_own(profile_of: Build) -> None:
    def told(ttft: float) -> dict[str, Any]:
        return {"steps": [hop("answer", ttft + 1.0, ttft_s=ttft, output_tokens=100.0, input_tokens=100.0)]}

    parts = parts_of(profile_of([*[told(0.3)] * 41, told(2.8)]), 41)
    assert parts["first_token", "answer"].seconds == pytest.approx(2.5)
    assert parts["first_token", "answer"].detail == "later first token in `answer`"


def streamed(**more: Any) -> dict[str, Any]:
    """An answer of 100 tokens to a prompt of about 500, of which the first comes after 0.3 s."""
    told = {"ttft_s": 0.3, "output_tokens": 100.0, "input_tokens": 500.0, "streamed": True}
    return {"steps": [hop("answer", **{"seconds": 1.3, **told, **more})]}


def cut(seconds: float, outcome: str = "timed_out", **more: Any) -> dict[str, Any]:
    """A stream that ended before its first token: nobody told its tokens."""
    unknown = {"ttft_s": np.nan, "output_tokens": np.nan, "input_tokens": np.nan}
    return {**streamed(seconds=seconds, outcome=outcome, **{**unknown, **more}), "outcome": outcome}


@pytest.mark.parametrize("outcome", ["timed_out", "cancelled", "closed_by_consumer", "failed"])
@pytest.mark.parametrize("lines", [4, 41])
def test_a_first_token_that_never_came_was_waited_for_and_nothing_else_was_slow(
    profile_of: Build, outcome: str, lines: int
) -> None:
    random = np.random.default_rng(1)
    prompts = random.integers(100, 900, lines)
    normal = [streamed(ttft_s=0.1 + 4e-4 * n, input_tokens=float(n), seconds=1.1 + 4e-4 * n) for n in prompts]
    profile = profile_of([*normal, cut(3.0, outcome)])
    causes = explain(profile)
    found = {part.kind: part for part in causes.parts(lines)}
    usual_s = causes.reference.duration_s - 1.0
    assert set(found) == {"first_token", "answers"}
    assert found["first_token"].seconds == pytest.approx(3.0 - usual_s)
    assert found["answers"].seconds == pytest.approx(-1.0)
    assert found["first_token"].detail == "waited for a first token that never came in `answer`"
    assert found["first_token"].count == 1


def test_one_that_was_cut_before_a_first_token_was_due_had_no_earlier_one(profile_of: Build) -> None:
    parts = parts_of(profile_of([*[streamed()] * 41, cut(0.1, "cancelled")]), 41)
    assert {key: part.seconds for key, part in parts.items()} == {("answers", "answer"): pytest.approx(-1.2)}


def test_what_the_server_told_of_a_first_token_that_never_came_is_its_queue(profile_of: Build) -> None:
    server = {"queue_s": 0.1, "prefill_s": 0.1}
    parts = parts_of(profile_of([*[streamed(**server)] * 41, cut(3.0, queue_s=2.6, prefill_s=0.1)]), 41)
    assert parts["queue", "answer"].seconds == pytest.approx(2.5)
    assert parts["first_token", "answer"].seconds == pytest.approx(0.2)


def test_where_no_first_token_was_ever_recorded_a_missing_one_says_nothing(profile_of: Build) -> None:
    parts = parts_of(profile_of([*[streamed(ttft_s=np.nan)] * 41, cut(3.0)]), 41)
    assert ("first_token", "answer") not in parts
    parts = parts_of(profile_of([*[streamed(ttft_s=np.nan)] * 41, cut(3.0, limit_hit="first_token")]), 41)
    assert parts["first_token", "answer"].seconds > 0


def test_a_larger_prompt_is_told_from_a_late_first_token(profile_of: Build) -> None:
    def told(prompt: float, late: float = 0.0) -> dict[str, Any]:
        ttft = 0.2 + 1e-4 * prompt + late
        more = {"ttft_s": ttft, "output_tokens": 100.0, "input_tokens": prompt, "streamed": True}
        return {"steps": [hop("answer", ttft + 1.0, **more)]}

    usual = [told(float(n)) for n in np.random.default_rng(0).integers(900, 1101, 60)]
    profile = profile_of([*usual, told(31_000.0), told(1000.0, late=3.0)])
    larger = parts_of(profile, 60)["prompt", "answer"]
    assert (larger.seconds, larger.count) == (pytest.approx(3.0, abs=0.1), pytest.approx(30_000, abs=200))
    assert larger.detail == "larger `answer` prompts"
    assert not larger.estimated
    assert parts_of(profile, 61)["first_token", "answer"].seconds == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(("n", "streamed"), [(3, False), (40, False), (40, True)])
def test_prompts_that_are_nearly_alike_explain_no_slowness(profile_of: Build, n: int, streamed: bool) -> None:
    """The first call of a process is slow, and has nothing cached yet: four prompt tokens more of a thousand."""

    def call(prompt: float, seconds: float) -> dict[str, Any]:
        waited = {"ttft_s": seconds - 0.1, "streamed": True} if streamed else {}
        return {"steps": [hop("answer", seconds, output_tokens=100.0, input_tokens=prompt, **waited)]}

    random = np.random.default_rng(0)
    profile = profile_of([*[call(996.0, float(s)) for s in random.normal(0.8, 0.005, n - 1)], call(1000.0, 1.0)])
    assert not any(part.kind == "prompt" for part in explain(profile).parts(n - 1))


def test_without_an_observed_first_token_a_prompts_cost_is_read_off_durations_and_marked_so(
    profile_of: Build,
) -> None:
    def told(prompt: float) -> dict[str, Any]:
        return {"steps": [hop("answer", 0.2 + 1e-4 * prompt, output_tokens=100.0, input_tokens=prompt)]}

    usual = [told(float(n)) for n in np.random.default_rng(0).integers(900, 1101, 60)]
    larger = parts_of(profile_of([*usual, told(31_000.0)]), 60)["prompt", "answer"]
    assert larger.seconds == pytest.approx(3.0, abs=0.1)
    assert larger.estimated


@pytest.mark.parametrize(
    ("kind", "columns", "detail"),
    [
        ("retries", {"attempt_ttft_s": 0.3, "attempts": 2.0}, "more time in failed attempts of `answer`"),
        ("backoff", {"attempt_ttft_s": 0.3, "backoff_s": 2.5}, "more waiting between attempts of `answer`"),
        ("stalls", {"ttft_s": 0.3, "stalled_s": 2.5}, "more stalling in `answer`"),
        ("client_lag", {"ttft_s": 0.3, "client_lag_s": 2.5}, "`answer` more held up by the client"),
    ],
)
def test_what_spans_know_by_name_is_a_cause_of_its_own(
    profile_of: Build, kind: str, columns: dict[str, float], detail: str
) -> None:
    common = {"output_tokens": 100.0, "input_tokens": 100.0}
    usual = {"steps": [hop("answer", 1.3, ttft_s=0.3, attempt_ttft_s=0.3, **common)]}
    late = {"steps": [hop("answer", 3.8, **{"ttft_s": 2.8, **common, **columns})]}
    parts = parts_of(profile_of([*[usual] * 41, late]), 41)
    assert set(parts) == {(kind, "answer")}
    assert parts[kind, "answer"].seconds == pytest.approx(2.5)  # type: ignore[index]
    assert parts[kind, "answer"].detail == detail  # type: ignore[index]


def test_tools_are_named_and_what_no_tool_covers_is_called_what_it_is(profile_of: Build) -> None:
    late = {"steps": [hop("plan", 1.0), work("search", 4.5), hop("answer", 2.0, started_s=7.0)]}
    parts = parts_of(profile_of([*usual(), late]), 41)
    assert set(parts) == {("tools", "search"), ("between_steps", "")}
    assert parts["tools", "search"].seconds == pytest.approx(4.0)
    assert parts["between_steps", ""].seconds == pytest.approx(1.5)
    assert parts["between_steps", ""].detail == "more time before or between steps"


def test_without_tools_the_slow_end_of_a_stream_is_no_tool(profile_of: Build) -> None:
    rows = [{"steps": [hop("plan", 1.0), hop("answer", 2.0)], "duration_s": 3.1}] * 41
    parts = parts_of(profile_of([*rows, {**rows[0], "duration_s": 6.1}]), 41)
    assert list(parts) == [("after_last_hop", "")]
    assert parts["after_last_hop", ""].seconds == pytest.approx(3.0)
    assert parts["after_last_hop", ""].detail == "more time after the last hop"


@pytest.mark.parametrize(
    ("steps", "named", "between", "after"),
    [
        ([hop("a", 1.0), work("t", 2.0), hop("a", 1.0)], 2.0, 0.0, 0.0),
        ([hop("a", 2.0), work("t", 2.0, started_s=1.0), hop("a", 1.0, started_s=5.0)], 1.0, 2.0, 0.0),
        ([work("t", 2.0), work("t", 2.0, started_s=0.0), hop("a", 1.0, started_s=4.0)], 2.0, 2.0, 0.0),
        ([hop("a", 1.0, started_s=1.0), work("t", 1.0, started_s=3.0)], 1.0, 1.0, 1.0),
        ([work("t", 1.0, started_s=2.0)], 1.0, 2.0, 0.0),
        ([hop("a", 4.0), work("t", 2.0, started_s=1.0)], 0.0, 0.0, 0.0),
    ],
)  # fmt: skip
def test_a_tool_has_the_time_in_which_it_alone_was_running(
    profile_of: Build, steps: list[tuple[str, dict[str, Any]]], named: float, between: float, after: float
) -> None:
    rest: list[dict[str, Any]] = [{"steps": [], "duration_s": 0.0}] * 3
    found = {part.kind: part.seconds for part in explain(profile_of([*rest, {"steps": steps}])).parts(3)}
    wanted = {"tools": named, "between_steps": between, "after_last_hop": after}
    assert {kind: found.get(kind, 0.0) for kind in wanted} == pytest.approx(wanted)  # type: ignore[call-overload]


def test_hops_side_by_side_are_a_part_so_that_the_sum_stays_exact(profile_of: Build) -> None:
    late = {"steps": [hop("plan", 1.0), work("search", 0.5), hop("answer", 2.0), hop("answer", 2.0, started_s=2.5)]}
    parts = parts_of(profile_of([*usual(), late]), 41)
    assert parts["visits", "answer"].seconds == pytest.approx(2.0)
    assert parts["overlap", ""].seconds == pytest.approx(-1.0)
    assert parts["overlap", ""].detail == "hops more side by side"


def test_a_name_the_reference_never_visits_is_compared_with_its_own_mean(profile_of: Build) -> None:
    late = {"steps": [hop("plan", 1.0), work("search", 0.5), hop("answer", 2.0), hop("repair", 3.0)]}
    parts = parts_of(profile_of([*usual(), late]), 41)
    assert parts["visits", "repair"].seconds == pytest.approx(3.0)


def test_the_largest_part_comes_first_whichever_way_it_points(profile_of: Build) -> None:
    late = {"steps": [hop("plan", 6.0), work("search", 0.2), hop("answer", 2.0)]}
    sizes = [abs(part.seconds) for part in explain(profile_of([*usual(), late])).parts(41)]
    assert sizes == sorted(sizes, reverse=True)


def test_a_trajectory_whose_root_never_came_is_not_explained(profile_of: Build) -> None:
    causes = explain(profile_of([*usual(), {"steps": [hop("plan", 1.0)], "complete": False}]))
    assert np.isnan(causes.excess_s[41])
    assert causes.parts(41) == []


def test_shares_of_the_excess_add_up_to_one(profile_of: Build) -> None:
    late = {"steps": [hop("plan", 1.0)] * 3 + [work("search", 2.5), hop("answer", 2.0)]}
    profile = profile_of([*usual(), late, late])
    shares = explain(profile).share_of_excess(profile.trajectories.duration_s > 4)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["visits"] == pytest.approx(0.5)
    assert shares["tools"] == pytest.approx(0.5)


def test_failed_and_intervened_trajectories_are_no_reference(profile_of: Build) -> None:
    rows = [{**row, "intervened": True} for row in usual(3)]
    with pytest.raises(CannotAllocateError, match="nothing to compare with"):
        explain(profile_of([*rows, {"steps": [hop("plan", 1.0)], "outcome": "failed"}]))


def test_the_reference_is_described_in_words(profile_of: Build) -> None:
    assert explain(profile_of(usual())).reference.description == (
        "the 41 trajectories in the middle (45th to 55th percentile): 3.50 s, 2.0 hops, 500 ms of work on average"
    )


def test_a_reference_of_few_says_of_how_many_and_what_that_means(profile_of: Build) -> None:
    assert explain(profile_of([{"steps": [hop("plan", s)]} for s in (1.0, 2.0, 3.0)])).reference.description == (
        "the 1 trajectory in the middle (45th to 55th percentile of 3): 2.00 s, 1.0 hops, 0 s of work; so few that a "
        "part of each difference is chance"
    )


def test_of_two_trajectories_both_are_the_middle(profile_of: Build) -> None:
    profile = profile_of([{"steps": [hop("a", 1.0)]}, {"steps": [hop("a", 3.0)]}])
    assert explain(profile).excess_s == pytest.approx([-1.0, 1.0])


def test_the_middle_does_not_depend_on_the_order_of_ties(profile_of: Build) -> None:
    rows = [
        {"steps": [hop("a", 1.0)]},
        {"steps": [hop("b", 1.0)]},
        {"steps": [hop("a", 2.0)]},
        {"steps": [hop("b", 2.0)]},
    ]
    profile = profile_of(rows)
    forth, back = explain(profile), explain(profile.take(np.array([3, 2, 1, 0])))
    assert (forth.reference.trajectories, back.reference.trajectories) == (4, 4)
    for row in range(4):
        assert [(part.kind, part.name, part.seconds) for part in forth.parts(row)] == [
            (part.kind, part.name, pytest.approx(part.seconds)) for part in back.parts(3 - row)
        ]
