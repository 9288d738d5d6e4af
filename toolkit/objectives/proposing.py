"""`check --propose`: a commented `hopbudget.toml` from what is recorded. Observed, which is not advised."""

import json
import math
import re
import sys
import tomllib
from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hopbudget.budgets.attainment import attained
from hopbudget.budgets.attainment.objectives import WINDOW_S, Metric, Objective
from hopbudget.budgets.numbers.quantiles import clopper_pearson, smallest_n
from hopbudget.config.reading import json_schema
from hopbudget.errors import Exit, UserError
from hopbudget.objectives.counting import Window
from hopbudget.objectives.presets import PRESETS
from hopbudget.render import base, words
from hopbudget.reports.reading import Selection
from hopbudget.store import objectives as stored
from hopbudget.store import queries
from hopbudget.store.objectives import Scope
from hopbudget.units import plural

if TYPE_CHECKING:
    import duckdb

_PERCENTILES: Final[tuple[tuple[Metric, float], ...]] = (
    ("trajectory_duration", 95),
    ("answer_start", 95),
    ("ttft", 95),
    ("tpot", 95),
    ("itl", 99),
)
_UNLIMITED: Final = 1e6
_MANY_HOPS: Final = 6
_HEAD: Final = """\
# hopbudget.toml: what "in time" means here. `hopbudget check` says whether it holds.
#
# The limits below are what was observed, rounded up to two figures. They say how it was, not how it should be: put in
# what your users need. Unless an objective says window = "7d", the 30 days before a workload's newest trajectory
# count.
# For your editor: hopbudget check --schema --out hopbudget.schema.json
"""
_TAIL: Final = """\
# trace_url = "https://tracing.example/trace/{trace_id}"  # links to the tracing tool that you have

# [propagate]
# hosts = ["api.internal"]  # requests to these say how much time is left
"""


def propose(selection: Selection, out: Path | None, *, force: bool = False, as_json: bool = False) -> int:
    """Write the proposal to a file or to standard output; returns the exit code."""
    _refuse_overwriting(out, force)
    with selection.open() as (con, where):
        text = proposal(con, where)
    told = {"written": None if out is None else str(out), "config": tomllib.loads(text), "toml": text}
    _put(text, out, told if as_json else None)
    return Exit.DONE


def print_schema(out: Path | None, *, force: bool = False, as_json: bool = False) -> int:
    """Write the JSON Schema of `hopbudget.toml` to a file or to standard output; returns the exit code."""
    _refuse_overwriting(out, force)
    schema = json_schema()
    _put(json.dumps(schema, indent=2) + "\n", out, schema if as_json else None)
    return Exit.DONE


def proposal(con: "duckdb.DuckDBPyConnection", where: queries.Where) -> str:
    """A commented configuration of the workloads that the filter leaves."""
    parts = [_HEAD, _TAIL]
    for name, n in queries.workloads(con, where):
        chosen = stored.scope(where, {"name": name})
        to_at = stored.newest_at(con, chosen)
        scope = Scope(chosen, to_at - WINDOW_S, to_at)
        parts.append("\n".join(_workload(name, n, Window(con, scope))) + "\n")
    parts.append("\n".join(_prices(con, where)) + "\n")
    parts.append(PRESETS)
    return "\n".join(part for part in parts if part.strip())


def _workload(name: str, n: int, window: Window) -> Iterator[str]:
    held = len(window.trajectories.code)
    counted = plural(n, "trajectory", "trajectories") + (f", {held:,} of them" if n > 1 else "")
    yield f"[workloads.{_key(name)}]  # {counted} in the 30 days before the newest"
    yield '# deadline = "12s"      # end to end, for one trajectory'
    yield '# enforce = "observe"   # or "deadline": a request ends at its limits'
    yield f"# match.name = {_text(name)}  # or match.service, or any attribute; all must hold"
    for objective in _asked(window):
        yield from _percentile(name, objective, window)
    yield from _errors(name, window)


def _asked(window: Window) -> list[Objective]:
    asked = [Objective(metric, _UNLIMITED, percentile) for metric, percentile in _PERCENTILES]
    hops = window.hops
    names = [hops.names[index] for index in sorted(set(hops.name.tolist()))]
    if 1 < len(names) <= _MANY_HOPS:
        asked += [Objective("hop_duration", _UNLIMITED, 95, hop=hop) for hop in names]
    return asked


def _percentile(workload: str, objective: Objective, window: Window) -> Iterator[str]:
    counts, quantile = window.counted(objective)
    found = attained.attain(counts)
    if not found.n or math.isnan(quantile):
        return
    assert objective.percentile is not None
    label = f"p{objective.percentile:.10g}"
    counted = f"n {found.n:,}, {found.failed:,} failed"
    yield ""
    if math.isinf(quantile):
        yield f"# {words.NAMES[objective.metric]}: its {label} is beyond all that came, so many failed ({counted})."
        return
    few = found.sample < objective.needed
    takes = f"; it takes {objective.needed:,} to say" if few else ""
    out = "# " if few else ""
    yield f"{out}[[workloads.{_key(workload)}.objectives]]"
    yield f'{out}metric = "{objective.metric}"'
    if objective.hop is not None:
        yield f"{out}hop = {_text(objective.hop)}"
    yield f"{out}percentile = {objective.percentile:.10g}"
    observed = f"observed {label} {words.quantity(objective, quantile)}, {counted}{takes}"
    yield f'{out}limit = "{rounded_up(quantile)}"  # {observed}'


def _errors(workload: str, window: Window) -> Iterator[str]:
    """The share that failed, with the upper end of its interval as the limit."""
    counts, _ = window.counted(Objective("error_share", 0.5))
    found = attained.attain(counts)
    if not found.n:
        return
    missed = found.n - found.good
    limit = math.ceil(clopper_pearson(missed, found.n)[1] * 1000) / 10
    if limit >= 100:
        return
    needed = max(Objective("error_share", limit / 100).needed, smallest_n(0.9))
    out, takes = ("", "") if found.n >= needed else ("# ", f"; so few say little, {needed:,} are enough")
    yield ""
    yield f"{out}[[workloads.{_key(workload)}.objectives]]"
    yield f'{out}metric = "error_share"'
    yield f'{out}limit = "{limit:g}%"  # observed {missed:,} of {found.n:,}; the upper end of the 95% interval{takes}'


def _prices(con: "duckdb.DuckDBPyConnection", where: queries.Where) -> Iterator[str]:
    models = stored.models(con, where)
    if models:
        yield "# [prices]  # of a million tokens, in your currency; what is not said is unknown"
    for model in models:
        yield f"# {_key(model)} = {{ input = , cached = , output = }}"


def rounded_up(value_s: float) -> str:
    """A duration of two figures, not below the value."""
    exact = Decimal(repr(value_s))
    step = Decimal(1).scaleb(exact.adjusted() - 1)
    up = (exact / step).to_integral_value(ROUND_CEILING) * step
    return f"{up.normalize():f}s" if up >= 1 else f"{(up * 1000).normalize():f}ms"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def _refuse_overwriting(out: Path | None, force: bool) -> None:
    if out is not None and out.exists() and not force:
        raise UserError(f"{out} is there already, and is left as it is. Name another file, or add --force.")


def _put(text: str, out: Path | None, told: dict[str, Any] | None) -> None:
    """Write the text to a file, else to standard output; `told` goes there instead of anything else."""
    said = text if out is None else f"Written to {out}.\n"
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{out} can't be written: {error.strerror or error}.", Exit.ENVIRONMENT) from error
    if told is not None:
        base.print_json(told)
    else:
        sys.stdout.write(said)
