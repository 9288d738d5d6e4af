"""`hopbudget.toml`: what is read, and every mistake told with its line."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from hopbudget.budgets.attainment.objectives import DAY_S, METRICS, SHARES, Objective
from hopbudget.config.configuring import Config, Price, Workload, find, load
from hopbudget.config.kinds import DURATION
from hopbudget.config.reading import json_schema, read
from hopbudget.config.tables import Mistakes
from hopbudget.errors import UserError
from hopbudget.tracing.settings import duration, read_config

WHOLE = """\
trace_url = "https://tracing.example/{trace_id}"

[workloads.chat]
deadline = "12s"
enforce = "deadline"
plan = "plan.toml"
max_steps = 9

[workloads.chat.match]
service = "support"
tau2.run = "42"

[workloads.chat.hops.answer]
first_token = "800ms"
stall = "2s"
completion = "0.5min"
silent_thinking = true

[[workloads.chat.objectives]]
metric = "ttft"
percentile = 95
limit = "1.5s"
hop = "answer"
window = "7d"
min_sample = 100

[[workloads.chat.objectives]]
metric = "tokens_per_s"
percentile = 90
limit = 25

[workloads.batch]
objectives = [
  { metric = "trajectory_duration", percentile = 99, limit = "2h" },
  { metric = "error_share", limit = "1%" },
  { metric = "underrun", limit = 0.02, pace = 8 },
]

[prices."gpt-4.1"]
input = 2
output = 8.0

[propagate]
hosts = ["api.internal"]
"""


def loaded(text: str, tmp_path: Path) -> Config:
    path = tmp_path / "hopbudget.toml"
    path.write_text(text)
    return load(path)


def mistakes(text: str, tmp_path: Path) -> list[str]:
    with pytest.raises(UserError) as caught:
        loaded(text, tmp_path)
    return [line.removeprefix(f"{tmp_path}/hopbudget.toml:") for line in caught.value.message.splitlines()]


def test_everything_that_may_be_said_is_read(tmp_path: Path) -> None:
    config = loaded(WHOLE, tmp_path)
    chat = config.workload("chat")
    assert chat.match == {"service": "support", "tau2.run": "42"}
    assert (chat.deadline_s, chat.enforce, chat.plan, chat.max_steps) == (12, "deadline", "plan.toml", 9)
    answer = chat.hops["answer"]
    assert (answer.first_token_s, answer.stall_s, answer.completion_s) == (0.8, 2, 30)
    assert answer.silent_thinking
    assert chat.objectives == (
        Objective("ttft", 1.5, 95, hop="answer", window_s=7 * DAY_S, min_sample=100),
        Objective("tokens_per_s", 25, 90),
    )
    assert config.workload("batch").objectives == (
        Objective("trajectory_duration", 7200, 99),
        Objective("error_share", 0.01),
        Objective("underrun", 0.02, pace=8),
    )
    assert config.propagate_hosts == ("api.internal",)
    assert config.trace_link("ab12") == "https://tracing.example/ab12"


def test_a_workload_without_a_match_is_the_stored_one_of_its_name(tmp_path: Path) -> None:
    assert loaded("[workloads.chat]", tmp_path).workloads == (Workload("chat", {"name": "chat"}),)


def test_each_objective_knows_its_line(tmp_path: Path) -> None:
    lines = loaded(WHOLE, tmp_path).lines
    text = WHOLE.splitlines()
    assert text[lines["chat", 1]].startswith('metric = "tokens_per_s"')
    assert "underrun" in text[lines["batch", 2] - 1]


def test_a_price_is_null_where_it_is_not_said(tmp_path: Path) -> None:
    config = loaded(WHOLE, tmp_path)
    price = config.price("gpt-4.1")
    assert price == Price(input=2.0, output=8.0)
    assert price is not None
    assert price.cost(1_000_000, 500_000) == 6.0
    assert price.cost(1_000_000, None) is None
    assert Price(input=2.0).cost(1, 1) is None
    assert config.price("gemini") is None


def test_cached_tokens_have_their_own_price_or_that_of_the_others() -> None:
    assert Price(2.0, 8.0, 0.5).cost(1e6, 0, 4e5) == pytest.approx(1.2 + 0.2)
    assert Price(2.0, 8.0).cost(1e6, 0, 4e5) == pytest.approx(2.0)


def test_the_longest_window_is_never_shorter_than_what_is_usual(tmp_path: Path) -> None:
    assert loaded(WHOLE, tmp_path).longest_window_s == 30 * DAY_S
    assert loaded(WHOLE.replace('"7d"', '"6w"'), tmp_path).longest_window_s == 42 * DAY_S


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("deadlien = '12s'", "2: unknown key 'deadlien'. Did you mean deadline?"),
        ("deadline = '12sec'", "2: deadline: \"12sec\": unknown unit 'sec'. Did you mean s?"),
        ("deadline = '12 parsec'", "2: deadline: \"12 parsec\": unknown unit 'parsec'; there are ms, s, m, min, h."),
        ("deadline = 12", '2: deadline: 12 has no unit: write "12s" or "12ms"'),
        ("deadline = '12'", '2: deadline: "12" has no unit: write "12s" or "12ms"'),
        ("deadline = '0s'", '2: deadline: "0s" is not more than nothing'),
        ("deadline = true", "2: deadline: True is not a duration"),
        ("enforce = 'abrot'", "2: enforce: unknown 'abrot'. Did you mean abort?"),
        ("max_steps = 2.5", "2: max_steps: 2.5 is not a whole number of at least 1"),
        ("hops = 3", "2: workloads.chat.hops must be a table, not 3"),
        ("hops.answer.stal = '2s'", "2: unknown key 'stal'. Did you mean stall?"),
        ("match = 'x'", "2: match: 'x' is not a table of attributes and their values"),
        ("match.seed = 3", "2: match: seed = 3 is not a text"),
        ("objectives = 1", "2: workloads.chat.objectives must be an array of tables, not 1"),
    ],
)
def test_a_mistake_in_a_workload_is_told_with_its_line_and_a_way_out(line: str, said: str, tmp_path: Path) -> None:
    (found,) = mistakes(f"[workloads.chat]\n{line}\n", tmp_path)
    assert found.startswith(said)


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("metric = 'ttftt'\npercentile = 95\nlimit = '1s'", "2: metric: unknown metric 'ttftt'. Did you mean ttft"),
        (
            "metric = 'e2e'\npercentile = 95\nlimit = '1s'",
            "2: metric: unknown metric 'e2e'. Did you mean trajectory_duration?",
        ),
        (
            "metric = 'ttft'\npercentile = 0.95\nlimit = '1s'",
            "3: percentile: a percentile is out of 100: write 95, not 0.95",
        ),
        ("metric = 'ttft'\npercentile = 100\nlimit = '1s'", "3: percentile: 100 is not a percentile"),
        ("metric = 'ttft'\nlimit = '1s'", "1: ttft needs a percentile, such as percentile = 95"),
        ("metric = 'ttft'\npercentile = 95", "1: workloads.chat.objectives.0 needs limit"),
        ("metric = 'ttft'\npercentile = 95\nlimit = 1.5", '4: limit of ttft: 1.5 has no unit: write "1.5s" or "1.5ms"'),
        ("metric = 'error_share'\nlimit = '1s'", "3: limit of error_share: '1s' is not a share"),
        ("metric = 'error_share'\nlimit = 0.1\npercentile = 9", "4: error_share has a limit that is a share, and no"),
        ("metric = 'underrun'\nlimit = 0.1", "1: underrun needs a pace in tokens a second, such as pace = 8"),
        ("metric = 'itl'\npercentile = 99\nlimit = '1s'\npace = 8", "5: itl has no pace; underrun has"),
        (
            "metric = 'answer_start'\npercentile = 99\nlimit = '1s'\nhop = 'a'",
            "5: answer_start is of whole trajectories",
        ),
        (
            "metric = 'tokens_per_s'\npercentile = 99\nlimit = '1s'",
            "4: limit of tokens_per_s: '1s' is not a number of tokens",
        ),
        ("metric = 'ttft'\npercentile = 99\nlimit = '1s'\nwindow = '30dd'", "5: window: \"30dd\": unknown unit 'dd'"),
        ("metric = 'ttft'\npercentile = 99\nlimit = '1s'\nmin_sample = 0", "5: min_sample: 0 is not a whole number"),
    ],
)
def test_a_mistake_in_an_objective_is_told_with_its_line(objective: str, said: str, tmp_path: Path) -> None:
    (found,) = mistakes(f"[[workloads.chat.objectives]]\n{objective}\n", tmp_path)
    assert found.startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tracee_url = 1", "1: unknown key 'tracee_url'. Did you mean trace_url?"),
        ("trace_url = 'https://x/y'", "1: trace_url: a trace_url holds {trace_id}"),
        ("trace_url = '{trace_id}'", "1: trace_url: '{trace_id}' is not a URL"),
        ("[propagate]\nhosts = 'a'", "2: hosts: 'a' is not a list of hosts"),
        ("[prices.x]\ninput = -1", "2: input: -1 is not a price of a million tokens"),
        ("[prices.x]\ninputs = 1", "2: unknown key 'inputs'. Did you mean input"),
    ],
)
def test_a_mistake_elsewhere_is_told_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    (found,) = mistakes(text + "\n", tmp_path)
    assert found.startswith(said)


def test_every_mistake_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "[workloads.a]\ndeadline = 3\n[workloads.b]\nmax = 2\n[[workloads.a.objectives]]\nmetric = 'x'\nlimit = 1\n"
    assert [line.partition(":")[0] for line in mistakes(text, tmp_path)] == ["2", "4", "6"]


def test_mistakes_in_inline_tables_have_their_line(tmp_path: Path) -> None:
    text = WHOLE.replace('limit = "1%"', 'limit = "1%", hopp = "x"').replace("pace = 8", "pace = 0")
    found = mistakes(text, tmp_path)
    lines = WHOLE.splitlines()
    assert [
        "error_share" in lines[int(found[0].partition(":")[0]) - 1],
        "underrun" in lines[int(found[1].partition(":")[0]) - 1],
    ] == [True, True]


def test_what_is_no_toml_is_told_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not TOML: .*line 2"):
        loaded("a = 1\nb = = 2\n", tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not UTF-8 text"):
        load(tmp_path / "binary")
    with pytest.raises(UserError, match="can't be read"):
        load(tmp_path)


def test_an_unknown_workload_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Did you mean chat"):
        loaded(WHOLE, tmp_path).workload("chatt")


def test_the_file_is_the_one_named_else_the_environments_else_the_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOPBUDGET_CONFIG", raising=False)
    assert find() is None
    for name in ("hopbudget.toml", "b.toml", "c.toml"):
        Path(name).write_text("")
    assert find() == Path("hopbudget.toml")
    monkeypatch.setenv("HOPBUDGET_CONFIG", "b.toml")
    assert find() == Path("b.toml")
    assert find("c.toml") == Path("c.toml")
    with pytest.raises(UserError, match=r"There is no configuration d\.toml"):
        find("d.toml")


def test_a_running_agent_reads_the_same_values(tmp_path: Path) -> None:
    config, told = loaded(WHOLE, tmp_path), []
    runtime = read_config(tomllib.loads(WHOLE), told.append)
    assert told == []
    for workload in config.workloads:
        theirs = runtime.workloads[workload.name]
        assert (workload.deadline_s, workload.enforce, workload.plan) == (theirs.deadline_s, theirs.mode, theirs.plan)
        assert workload.max_steps == theirs.max_steps
        for name, limits in workload.hops.items():
            hop = theirs.hops[name]
            assert (limits.first_token_s, limits.stall_s) == (hop.first_token_s, hop.stall_s)
            assert (limits.completion_s, limits.silent_thinking) == (hop.completion_s, hop.silent_thinking)
    assert config.propagate_hosts == runtime.hosts


@given(st.from_regex(r"\s?[0-9.]{1,4}\s?(ms|s|m|min|h|d|S|)\s?", fullmatch=True))
def test_a_duration_is_read_as_a_running_agent_reads_it(text: str) -> None:
    def read_by(reader: Any) -> float | None:
        try:
            return float(reader(text))
        except ValueError:
            return None

    mine, theirs = read_by(DURATION.read), read_by(duration)
    assert mine == theirs or (mine is not None and mine == pytest.approx(theirs))


# --- the schema for editors ------------------------------------------------------------------------------------------

DURATIONS = st.sampled_from(
    ["1s", "800ms", " 1.5 min ", ".5h", "0s", "0.0ms", "12", "1sec", "-1s", "2d", "1S", "", "٣s"]
)
SHARES_GIVEN = st.sampled_from(["1%", "0.5 %", "0%", "100%", "99.9%", 0.01, 0, 1, 1.5, "x", True])
NUMBERS = st.sampled_from([1, 25, 0.5, 0, -3, True, "8", 95, 99.9, 100, 0.95])
ANY = st.one_of(DURATIONS, SHARES_GIVEN, NUMBERS, st.just({}), st.just([]))
TEXTS = st.sampled_from(["answer", "", 3, "plan.toml"])
OBJECTIVES = st.fixed_dictionaries(
    {},
    optional={
        "metric": st.sampled_from([*METRICS, "ttftt", 3]),
        "percentile": NUMBERS,
        "limit": ANY,
        "hop": TEXTS,
        "window": DURATIONS,
        "min_sample": NUMBERS,
        "pace": NUMBERS,
        "typo": st.just(1),
    },
)
HOPS = st.fixed_dictionaries(
    {},
    optional={
        "first_token": DURATIONS,
        "stall": DURATIONS,
        "completion": ANY,
        "silent_thinking": ANY,
        "enforce": st.sampled_from(["abort", "x", 1]),
    },
)
WORKLOADS = st.fixed_dictionaries(
    {},
    optional={
        "match": st.sampled_from([{"a": "b"}, {"tau2": {"run": "4"}}, {"a": 3}, {"a": {"b": 1}}, "x", {}]),
        "deadline": DURATIONS,
        "enforce": st.sampled_from(["observe", "abrot"]),
        "plan": TEXTS,
        "max_steps": NUMBERS,
        "hops": st.one_of(st.dictionaries(st.sampled_from(["a", "b"]), HOPS, max_size=2), st.just(3)),
        "objectives": st.one_of(st.lists(OBJECTIVES, max_size=2), st.just("x")),
        "typo": st.just(1),
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "workloads": st.one_of(st.dictionaries(st.sampled_from(["chat", "b"]), WORKLOADS, max_size=2), st.just([])),
        "prices": st.dictionaries(st.just("m"), st.dictionaries(st.sampled_from(["input", "x"]), NUMBERS, max_size=2)),
        "trace_url": st.sampled_from(["https://x/{trace_id}", "https://x", "x", 3]),
        "propagate": st.sampled_from([{"hosts": ["a"]}, {"hosts": "a"}, {"hosts": [""]}, {"x": 1}, {}, 3]),
    },
)


@settings(max_examples=250, deadline=None)
@given(DOCUMENTS)
def test_the_schema_and_the_reader_say_the_same(document: dict[str, Any]) -> None:
    found = Mistakes()
    read(document, found)
    assert jsonschema.Draft202012Validator(json_schema()).is_valid(document) == (not found.found)


@pytest.mark.parametrize("metric", METRICS)
def test_a_right_objective_of_each_metric_passes_both(metric: str) -> None:
    objective: dict[str, Any] = {"metric": metric}
    objective |= {"limit": 0.01} if metric in SHARES else {"percentile": 95, "limit": 25 if "_per_" in metric else "1s"}
    objective |= {"pace": 8} if metric == "underrun" else {}
    document = {"workloads": {"chat": {"objectives": [objective]}}}
    jsonschema.validate(document, json_schema())
    found = Mistakes()
    read(document, found)
    assert found.found == []


def test_the_schema_is_one(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    jsonschema.validate(json.loads(json.dumps(tomllib.loads(WHOLE))), json_schema())


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fall_over(text: str) -> None:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    read(document, Mistakes())


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS)
def test_every_mistake_is_told_on_a_line_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    text = tomlkit.dumps(document)
    path = tmp_path_factory.mktemp("config") / "hopbudget.toml"
    path.write_text(text)
    try:
        load(path)
    except UserError as error:
        for line in error.message.splitlines():
            number = int(line.removeprefix(f"{path}:").partition(":")[0])
            assert 1 <= number <= max(len(text.splitlines()), 1)


def test_the_schema_in_the_docs_is_the_one_that_is_printed() -> None:
    shipped = Path(__file__).resolve().parents[2] / "docs" / "hopbudget.schema.json"
    assert json.loads(shipped.read_text()) == json_schema()


def test_the_configuration_in_the_docs_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "objectives.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [workload.name for workload in loaded(block, tmp_path).workloads] == ["chat", "reports"]
