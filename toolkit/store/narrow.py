"""Which trajectories a question is about: the filter, as SQL conditions with their parameters, and its check."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import duckdb

from hopbudget.errors import UserError

COLUMNS: Final = ("run", "session", "service", "outcome", "plan")
"""Columns of `trajectories` that filter and group like attributes do."""
_LISTED: Final = 5


@dataclass(frozen=True, slots=True)
class Where:
    """A workload, values of attributes (or of `COLUMNS`), and trace ids; what is not given does not narrow."""

    workload: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    trace_ids: Sequence[str] | None = None
    sample: float | None = None
    """About this share of the traces, between 0 and 1, always the same ones."""
    since_s: float | None = None
    """Started then or later, seconds since the Unix epoch."""
    until_s: float | None = None
    """Started before then."""

    def for_workload(self, workload: str) -> "Where":
        """The same for one workload."""
        return replace(self, workload=workload)


@dataclass(slots=True)
class Condition:
    """SQL over `trajectories AS t`, and its parameters in order."""

    sql: str
    parameters: list[object]


def condition(where: Where) -> Condition:
    """The filter as a condition."""
    terms = ["true"]
    parameters: list[object] = []
    if where.workload is not None:
        terms.append("t.workload = ?")
        parameters.append(where.workload)
    for key, value in where.attributes.items():
        of_key = expression(key)
        terms.append(f"{of_key.sql} = ?")
        parameters += [*of_key.parameters, value]
    if where.trace_ids is not None:
        terms.append("list_contains(?::VARCHAR[], t.trace_id)")
        parameters.append(list(where.trace_ids))
    if where.sample is not None:
        terms.append("hash(t.trace_id) <= ? * 18446744073709551615::DOUBLE")
        parameters.append(where.sample)
    for comparison, at_s in ((">=", where.since_s), ("<", where.until_s)):
        if at_s is not None:
            terms.append(f"t.started_at {comparison} make_timestamp(?::BIGINT)")
            parameters.append(round(at_s * 1e6))
    return Condition(" AND ".join(terms), parameters)


NONE: Final = "(none)"
"""The group of trajectories that have no value of a key."""


def expression(key: str) -> Condition:
    """The value of a column or an attribute, as text."""
    if key in COLUMNS:
        return Condition(f"t.{key}", [])
    return Condition("map_extract(t.attributes, ?)[1]", [key])


def check(con: duckdb.DuckDBPyConnection, where: Where) -> None:
    """UserError if the workload, a key or a value is stored nowhere; it names the nearest that are."""
    if where.workload is not None:
        found = [row[0] for row in con.execute("SELECT DISTINCT workload FROM trajectories").fetchall()]
        if where.workload not in found:
            raise UserError(f"There is no workload {where.workload!r}{nearest(where.workload, found)}")
    for key, value in where.attributes.items():
        check_key(con, key)
        of_key = expression(key)
        rows = con.execute(f"SELECT DISTINCT {of_key.sql} FROM trajectories t", of_key.parameters).fetchall()
        values = [row[0] for row in rows if row[0] is not None]
        if value not in values:
            raise UserError(f"No trajectory has {key}={value}{nearest(value, values)}")


def check_key(con: duckdb.DuckDBPyConnection, key: str) -> None:
    """UserError if the key is neither a column nor an attribute of any trajectory."""
    if key in COLUMNS:
        return
    rows = con.execute("SELECT DISTINCT unnest(map_keys(attributes)) FROM trajectories").fetchall()
    keys = [row[0] for row in rows]
    if key not in keys:
        raise UserError(f"No trajectory has an attribute {key!r}{nearest(key, [*keys, *COLUMNS])}")


def nearest(given: str, known: Sequence[str]) -> str:
    """The end of a sentence that says what was perhaps meant, else what there is, the most alike first."""
    close = difflib.get_close_matches(given, known, n=3, cutoff=0.5)
    if close:
        return f". Did you mean {' or '.join(close)}?"
    if not known:
        return "; there is none at all."
    ordered = sorted(known, key=lambda one: (-difflib.SequenceMatcher(None, given, one).ratio(), one))
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"; there are {', '.join(ordered[:_LISTED])}{more}."
