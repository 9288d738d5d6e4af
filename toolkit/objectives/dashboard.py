"""One Grafana dashboard: the objectives and their error budgets, then first tokens, pace, gaps, hops and outcomes."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hopbudget.objectives.promql import HISTOGRAMS, HOP, HOPS, OUTCOME, WORKLOAD
from hopbudget.render import words

if TYPE_CHECKING:
    from hopbudget.objectives.alerting import Alerted

Json = dict[str, Any]

_SOURCE: Final[Json] = {"type": "prometheus", "uid": "${source}"}
_TIMES: Final = (
    ("TTFT by hop", HISTOGRAMS["ttft"][0]),
    ("TPOT by hop", HISTOGRAMS["tpot"][0]),
    ("ITL by hop", HISTOGRAMS["itl"][0]),
    ("Hop duration", HISTOGRAMS["hop_duration"][0]),
)


def dashboard(objectives: "Sequence[Alerted]") -> Json:
    """The dashboard as Grafana imports it."""
    panels: list[Json] = [_row("Objectives", 0)]
    top = 1
    for one in objectives:
        panels += [_left(one, top), _burn(one, top)]
        top += 5
    panels.append(_row("Streams and hops", top))
    for index, (title, metric) in enumerate(_TIMES):
        panels.append(_quantiles(title, metric, x=12 * (index % 2), y=top + 1 + 8 * (index // 2)))
    panels.append(_outcomes(top + 17))
    return {
        "title": "hopbudget",
        "uid": "hopbudget",
        "tags": ["hopbudget"],
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-7d", "to": "now"},
        "templating": {"list": [_source(), _workloads()]},
        "panels": [panel | {"id": number} for number, panel in enumerate(panels, start=1)],
    }


def _source() -> Json:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _workloads() -> Json:
    query = f"label_values({HOPS}, {WORKLOAD})"
    return {
        "name": "workload",
        "label": "Workload",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": "workloads"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
    }


def _row(title: str, y: int) -> Json:
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"h": 1, "w": 24, "x": 0, "y": y},
        "panels": [],
    }


def _left(one: "Alerted", y: int) -> Json:
    window = words.span(one.objective.window_s)
    allowed = 1 - one.objective.target
    return _panel(
        "stat",
        f"{one.workload}: {words.title(one.objective)}: budget left",
        {"h": 5, "w": 8, "x": 0, "y": y},
        [f"1 - ({one.ratio(window)}) / {allowed:.6g}"],
        unit="percentunit",
        steps=[("red", None), ("orange", 0), ("green", 0.25)],
    )


def _burn(one: "Alerted", y: int) -> Json:
    allowed = 1 - one.objective.target
    chosen = f"{{objective={json.dumps(one.id)}}}"
    return _panel(
        "timeseries",
        f"{one.workload}: {words.title(one.objective)}: burn rate (1 spends the budget exactly)",
        {"h": 5, "w": 16, "x": 8, "y": y},
        [f"{one.record(window)}{chosen} / {allowed:.6g}" for window in ("1h", "6h", "3d")],
        legends=["1h", "6h", "3d"],
        unit="none",
    )


def _quantiles(title: str, metric: str, *, x: int, y: int) -> Json:
    rate = f'sum by (le, {HOP}) (rate({metric}_bucket{{{WORKLOAD}=~"$workload"}}[$__rate_interval]))'
    levels = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return _panel(
        "timeseries",
        title,
        {"h": 8, "w": 12, "x": x, "y": y},
        [f"histogram_quantile({level}, {rate})" for level in levels.values()],
        legends=[f"{{{{{HOP}}}}} {name}" for name in levels],
        unit="s",
    )


def _outcomes(y: int) -> Json:
    rate = f'sum by ({OUTCOME}) (rate({HOPS}{{{WORKLOAD}=~"$workload"}}[$__rate_interval]))'
    return _panel(
        "timeseries",
        "Hops by outcome",
        {"h": 8, "w": 24, "x": 0, "y": y},
        [rate],
        legends=[f"{{{{{OUTCOME}}}}}"],
        unit="ops",
    )


def _panel(
    kind: str,
    title: str,
    place: Json,
    queries: Sequence[str],
    *,
    unit: str,
    legends: Sequence[str] | None = None,
    steps: Sequence[tuple[str, float | None]] | None = None,
) -> Json:
    names = legends or [""] * len(queries)
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query, "legendFormat": name}
        for index, (query, name) in enumerate(zip(queries, names, strict=True))
    ]
    defaults: Json = {"unit": unit}
    if steps is not None:
        defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [{"color": colour, "value": value} for colour, value in steps],
        }
    return {
        "type": kind,
        "title": title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {},
        "targets": targets,
    }
