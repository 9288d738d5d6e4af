"""`hopbudget alerts`: the objectives of `hopbudget.toml` as Prometheus rules and a Grafana dashboard.

Alerts go by burn rate over a long and a short window at once (Google, The Site Reliability Workbook, chapter 5): the
long one says that it matters, the short one that it is still so.
"""

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from hopbudget.budgets.attainment.objectives import DAY_S, HOUR_S, Objective
from hopbudget.config.configuring import FILE, Config, find, load
from hopbudget.errors import Exit, UserError
from hopbudget.objectives.dashboard import dashboard
from hopbudget.objectives.promql import NotOverMetrics, Ratio, missed
from hopbudget.render import base, words
from hopbudget.units import plural

RULES: Final = "hopbudget-rules.yml"
DASHBOARD: Final = "hopbudget-dashboard.json"


class Pair(NamedTuple):
    """An alert's two windows, and the share of the error budget that may go in the long one."""

    long: str
    short: str
    long_s: float
    spent: float
    severity: str


PAIRS: Final = (
    Pair("1h", "5m", HOUR_S, 0.02, "page"),
    Pair("6h", "30m", 6 * HOUR_S, 0.05, "page"),
    Pair("3d", "6h", 3 * DAY_S, 0.10, "ticket"),
)
"""The workbook's table 5-8: 2% of the budget in an hour, 5% in six hours, 10% in three days."""


@dataclass(frozen=True, slots=True)
class Alerted:
    """One objective with the PromQL of what missed it."""

    workload: str
    objective: Objective
    number: int
    ratio: Ratio

    @property
    def id(self) -> str:
        """A name for labels and rules, the same as long as the file is."""
        metric = self.objective.metric
        return f"{re.sub(r'[^a-z0-9]+', '_', self.workload.lower()).strip('_') or 'workload'}_{self.number}_{metric}"

    def record(self, window: str) -> str:
        """The recorded series of the share that missed in a window."""
        return f"hopbudget:objective_missed:ratio_rate{window}"


def alerted(config: Config) -> tuple[list[Alerted], list[tuple[str, str, str]]]:
    """The objectives that the metrics of capture can tell, and the others as (workload, objective, why not)."""
    told: list[Alerted] = []
    others: list[tuple[str, str, str]] = []
    numbers = itertools.count(1)
    for workload in config.workloads:
        name = workload.match.get("name")
        for objective, number in zip(workload.objectives, numbers, strict=False):
            elsewhere = [key for key in workload.match if key != "name"]
            ratio: Ratio | NotOverMetrics
            if name is None or elsewhere:
                ratio = NotOverMetrics("its workload is matched by attributes that no metric carries")
            else:
                ratio = missed(objective, name)
            if isinstance(ratio, NotOverMetrics):
                others.append((workload.name, words.title(objective), ratio.reason))
            else:
                told.append(Alerted(workload.name, objective, number, ratio))
    return told, others


def rules(objectives: Sequence[Alerted]) -> dict[str, Any]:
    """The rules as Prometheus reads them: a group an objective, recorded shares first, then alerts."""
    return {"groups": [_group(one) for one in objectives]}


def _group(one: Alerted) -> dict[str, Any]:
    labels = {"objective": one.id, "workload": one.workload}
    windows = list(dict.fromkeys(window for pair in PAIRS for window in (pair.short, pair.long)))
    records = [{"record": one.record(window), "expr": one.ratio(window), "labels": labels} for window in windows]
    return {"name": f"hopbudget_{one.id}", "rules": [*records, *_alerts(one, labels)]}


def _alerts(one: Alerted, labels: dict[str, str]) -> list[dict[str, Any]]:
    allowed = 1 - one.objective.target
    found = []
    for pair in PAIRS:
        factor = pair.spent * one.objective.window_s / pair.long_s
        threshold = factor * allowed
        if pair.long_s >= one.objective.window_s or threshold >= 1:
            continue  # the window is too short for it, or more than everything would have to miss
        chosen = f"{{objective={json.dumps(one.id)}}}"
        both = [f"{one.record(window)}{chosen} > {threshold:.6g}" for window in (pair.long, pair.short)]
        title = words.title(one.objective)
        found.append(
            {
                "alert": f"HopbudgetBurn_{one.id}_{pair.long}",
                "expr": " and ".join(both),
                "labels": labels | {"severity": pair.severity},
                "annotations": {
                    "summary": f"{one.workload}: {title} burns its error budget {factor:.3g} times too fast",
                    "description": f"{pair.spent:.0%} of the budget of {words.span(one.objective.window_s)} went in "
                    f"{pair.long}, and it goes on. `hopbudget report --breaches` says why.",
                },
            }
        )
    return found


def yaml(value: Any, indent: int = 0) -> str:
    """Dictionaries, lists and texts as block YAML; texts in JSON's quotes, which YAML reads as they are."""
    pad = "  " * indent
    if isinstance(value, dict):
        return "".join(f"{pad}{key}:{_below(item, indent)}" for key, item in value.items())
    return "".join(f"{pad}- {yaml(item, indent + 1).lstrip()}" for item in value)


def _below(value: Any, indent: int) -> str:
    if isinstance(value, dict | list):
        return "\n" + yaml(value, indent + 1) if value else " []\n"
    return f" {json.dumps(value, ensure_ascii=False)}\n"


def alerts(config_path: str | None, folder: Path, *, as_json: bool) -> int:
    """Write rules and dashboard to a folder; returns the exit code."""
    path = find(config_path)
    if path is None:
        raise UserError(f"There is no {FILE} here. Name one with --config.")
    told, others = alerted(load(path))
    if not told and not others:
        raise UserError(f"{path} holds no objective. `hopbudget check --propose` shows what they look like.")
    if not told:
        why = "; ".join(f"{workload}: {title}: {reason}" for workload, title, reason in others)
        raise UserError(f"No objective of {path} can be told from the metrics of capture. {why}", Exit.NO)
    head = f"# Made by `hopbudget alerts` from {path.name}; make it again rather than change it.\n"
    head += "".join(f"# Not here: {workload}: {title}: {reason}.\n" for workload, title, reason in others)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RULES).write_text(head + yaml(rules(told)), encoding="utf-8")
        (folder / DASHBOARD).write_text(json.dumps(dashboard(told), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder} can't be written to: {error.strerror or error}.", Exit.ENVIRONMENT) from error
    if as_json:
        left_out = [{"workload": w, "objective": title, "reason": reason} for w, title, reason in others]
        written = {"rules": str(folder / RULES), "dashboard": str(folder / DASHBOARD)}
        base.print_json(written | {"objectives": [one.id for one in told], "left_out": left_out})
        return Exit.DONE
    out = base.console()
    out.print(f"{plural(len(told), 'objective', 'objectives')}: {folder / RULES} and {folder / DASHBOARD}.")
    for workload, title, reason in others:
        out.print(f"Left out: {workload}: {title}: {reason}.")
    return Exit.DONE
