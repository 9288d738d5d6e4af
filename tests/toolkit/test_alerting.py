"""`hopbudget alerts`: rules and a dashboard over metrics that capture really records."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from hopbudget.budgets.attainment.objectives import Objective
from hopbudget.config import configuring
from hopbudget.errors import Exit
from hopbudget.objectives import alerting, promql
from hopbudget.objectives.dashboard import dashboard
from hopbudget.tracing.metrics import Instruments

Run = Callable[..., Any]
CONFIG = """\
[workloads."chat \\"x\\""]
objectives = [
  { metric = "ttft", percentile = 95, limit = "1s" },
  { metric = "ttft", percentile = 95, limit = "1.5s", hop = "answer" },
  { metric = "tokens_per_s", percentile = 90, limit = 25 },
  { metric = "itl", percentile = 99, limit = "200ms", window = "7d" },
  { metric = "hop_duration", percentile = 95, limit = "10s" },
  { metric = "error_share", limit = "1%", hop = "answer" },
  { metric = "trajectory_duration", percentile = 95, limit = "10s" },
  { metric = "ttft", percentile = 95, limit = "5min" },
]
[workloads.elsewhere]
match.region = "eu"
objectives = [ { metric = "ttft", percentile = 95, limit = "1s" } ]
"""


@pytest.fixture
def told(tmp_path: Path) -> tuple[list[alerting.Alerted], list[tuple[str, str, str]]]:
    path = tmp_path / "hopbudget.toml"
    path.write_text(CONFIG)
    return alerting.alerted(configuring.load(path))


@pytest.fixture
def recorded_names() -> set[str]:
    """The metrics of capture, as OpenTelemetry names them to Prometheus."""
    reader = InMemoryMetricReader()
    instruments = Instruments(MeterProvider([reader]))
    for instrument in vars(instruments).values():
        instrument.add(1) if hasattr(instrument, "add") else instrument.record(1)
    names = set()
    data = reader.get_metrics_data()
    assert data is not None
    for metric in (m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics):
        name = metric.name.replace(".", "_")
        if metric.unit == "s":
            names |= {f"{name}_seconds_{part}" for part in ("bucket", "count", "sum")}
        elif type(metric.data).__name__ == "Sum":
            names.add(f"{name}_total")
    return names


def expressions(groups: dict[str, Any]) -> list[str]:
    return [rule["expr"] for group in groups["groups"] for rule in group["rules"] if "record" in rule]


def test_every_series_that_the_rules_ask_for_is_recorded(told: Any, recorded_names: set[str]) -> None:
    found = expressions(alerting.rules(told[0]))
    asked = {name for text in found for name in re.findall(r"hopbudget_\w+(?=\{)", text)}
    assert asked
    assert asked <= recorded_names
    shown = json.dumps(dashboard(told[0]))
    assert set(re.findall(r"hopbudget_\w+?(?=\{)", shown)) <= recorded_names


def test_every_edge_asked_for_is_one_of_the_histograms(told: Any) -> None:
    for one in told[0]:
        if one.objective.metric in promql.HISTOGRAMS:
            _, edges = promql.HISTOGRAMS[one.objective.metric]
            asked = re.findall(r'le=~?"([\d.]+)', one.ratio("5m"))
            assert asked
            assert {float(edge.removesuffix("(")) for edge in asked} <= set(edges)


def test_a_limit_between_two_edges_is_interpolated(told: Any) -> None:
    one = next(one for one in told[0] if one.objective.limit == 1.5)
    text = one.ratio("5m")
    assert 'le="2.5"' in text
    assert "0.666667 * (sum" in text
    assert "0.333333 * (sum" in text


def test_objectives_that_no_metric_tells_are_named_with_the_reason(told: Any) -> None:
    reasons = [reason for _, _, reason in told[1]]
    assert len(reasons) == 3
    for words in ("trajectory_duration is in no metric", "outside the histogram's edges", "matched by attributes"):
        assert any(words in reason for reason in reasons)


def test_thresholds_follow_the_workbook(told: Any) -> None:
    (group,) = alerting.rules([told[0][0]])["groups"]
    alerts = [rule for rule in group["rules"] if "alert" in rule]
    assert [rule["labels"]["severity"] for rule in alerts] == ["page", "page", "ticket"]
    factors = [float(re.findall(r"> ([\d.]+)", rule["expr"])[0]) / 0.05 for rule in alerts]
    assert factors == pytest.approx([14.4, 6, 1])


def test_an_alert_that_could_never_fire_is_not_written(tmp_path: Path) -> None:
    objective = Objective("ttft", 1.0, 90)  # 14.4 times 10% is more than everything
    ratio = promql.missed(objective, "chat")
    assert not isinstance(ratio, promql.NotOverMetrics)
    (group,) = alerting.rules([alerting.Alerted("chat", objective, 1, ratio)])["groups"]
    assert [rule["alert"].rpartition("_")[2] for rule in group["rules"] if "alert" in rule] == ["6h", "3d"]


def test_alerts_ask_only_for_what_the_group_records(told: Any) -> None:
    for group in alerting.rules(told[0])["groups"]:
        recorded = {rule["record"] for rule in group["rules"] if "record" in rule}
        for rule in group["rules"]:
            if "alert" in rule:
                assert set(re.findall(r"hopbudget:[\w:]+", rule["expr"])) <= recorded


def test_all_expressions_are_balanced(told: Any) -> None:
    for text in expressions(alerting.rules(told[0])):
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
        assert '"' not in bare
        for opening, closing in ("()", "{}", "[]"):
            assert bare.count(opening) == bare.count(closing) > 0


def read_yaml(text: str) -> Any:
    """The block YAML that we write: mappings, lists and texts in JSON's quotes, two spaces a level."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if not line.startswith("#")]

    def block(at: int, indent: int) -> tuple[Any, int]:
        if lines[at][1].startswith("- "):
            items = []
            while at < len(lines) and lines[at][0] == indent and lines[at][1].startswith("- "):
                lines[at] = (indent + 2, lines[at][1][2:])
                item, at = block(at, indent + 2)
                items.append(item)
            return items, at
        found: dict[str, Any] = {}
        while at < len(lines) and lines[at][0] == indent and not lines[at][1].startswith("- "):
            key, _, value = lines[at][1].partition(":")
            assert key not in found
            if value.strip():
                found[key], at = json.loads(value), at + 1
            else:
                found[key], at = block(at + 1, lines[at + 1][0])
        return found, at

    made, end = block(0, 0)
    assert end == len(lines)
    return made


def test_the_file_of_rules_reads_back_as_the_rules(told: Any) -> None:
    assert read_yaml(alerting.yaml(alerting.rules(told[0]))) == alerting.rules(told[0])


def test_the_rules_have_the_shape_that_prometheus_asks_for(told: Any) -> None:
    groups = alerting.rules(told[0])["groups"]
    assert len({group["name"] for group in groups}) == len(groups)
    for group in groups:
        for rule in group["rules"]:
            assert rule.keys() <= {"record", "alert", "expr", "labels", "annotations"}
            assert ("record" in rule) != ("alert" in rule)
            name = rule.get("record") or rule["alert"]
            assert re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name)
            assert all(re.fullmatch(r"[a-zA-Z_]\w*", label) for label in rule["labels"])


def test_the_dashboards_panels_have_queries_and_do_not_overlap(told: Any) -> None:
    panels = dashboard(told[0])["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells
        assert panel["type"] == "row" or all(target["expr"] for target in panel["targets"])


def test_the_command_writes_both_files_and_says_what_is_left_out(hopbudget: Run) -> None:
    Path("hopbudget.toml").write_text(CONFIG)
    said = hopbudget("alerts", "--out", "made/alerts")
    assert said.code == Exit.DONE
    assert "6 objectives" in said.out
    assert "trajectory_duration is in no metric" in " ".join(said.out.split())
    assert len(read_yaml(Path("made/alerts/hopbudget-rules.yml").read_text())["groups"]) == 6
    assert json.loads(Path("made/alerts/hopbudget-dashboard.json").read_text())["title"] == "hopbudget"
    assert hopbudget("alerts", "--json").json["left_out"]


def test_nothing_to_alert_on_is_told(hopbudget: Run) -> None:
    assert "There is no hopbudget.toml here" in hopbudget("alerts").err
    Path("hopbudget.toml").write_text("[workloads.a]\n")
    assert "holds no objective" in hopbudget("alerts").err
    Path("hopbudget.toml").write_text(
        '[workloads.a]\nobjectives = [ { metric = "answer_start", percentile = 90, limit = "1s" } ]\n'
    )
    said = hopbudget("alerts")
    assert said.code == Exit.NO
    assert "answer_start is in no metric" in said.err
