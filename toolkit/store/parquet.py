"""Tables of hops in Parquet files: one row a model call, with columns named as somebody else named them.

A row becomes a span and goes the way of all spans. The trajectory of a trace is the extent of its hops, unless columns
say when it began and how long it took: what came before the first hop and after the last one is in no such table.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hopbudget.errors import UserError
from hopbudget.store import ids
from hopbudget.store.spans import UNSET, Attributes, Decoded, Span
from hopbudget.store.values import instant, signed, true, whole
from hopbudget.store.walker import Piece
from hopbudget.tracing import vocabulary as v

if TYPE_CHECKING:
    import duckdb

SCOPE: Final = "parquet"
_UNITS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
"""Nanoseconds in one."""
_KNOWN: Final = {
    "trace": ("trace_id",),
    "span": ("span_id",),
    "hop": ("hop",),
    "start": ("started_at",),
    "end": ("ended_at",),
    "duration": ("duration_s",),
    "ttft": ("ttft_s",),
    "model": ("model",),
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cached_tokens": ("cached_tokens",),
    "reasoning_tokens": ("reasoning_tokens",),
    "streamed": ("streamed",),
    "outcome": ("outcome",),
    "error": ("error_type",),
    "workload": ("workload",),
    "run": ("run",),
    "session": ("session",),
    "trajectory_start": (),
    "trajectory_duration": (),
}
"""What a column may be, and the names under which it is found without being told: those of our own tables."""
_TEXTS: Final = {"workload": v.WORKLOAD, "run": v.RUN, "session": v.CONVERSATION_ID}
_OF_HOP: Final = {"hop": "hop", "model": v.REQUEST_MODEL, "error": v.ERROR_TYPE}
_TOKENS: Final = {
    "input_tokens": v.INPUT_TOKENS,
    "output_tokens": v.OUTPUT_TOKENS,
    "cached_tokens": v.CACHED_TOKENS,
    "reasoning_tokens": v.REASONING_TOKENS,
}
_ROWS_A_TIME: Final = 2_000


class Column(NamedTuple):
    """Where something stands, and in which unit a duration is."""

    name: str
    unit: str = "s"


Columns = Mapping[str, Column]


def is_parquet(path: Path) -> bool:
    """Whether it is named like one."""
    return path.suffix.lower() == ".parquet"


def read_columns(file: str | None, pairs: Sequence[str]) -> dict[str, Column]:
    """The map of a TOML file (`hop = "step"`, `duration = "latency:ms"`) and of NAME=COLUMN pairs, which go first.

    UserError for a name that means nothing or a unit that is none.
    """
    given: dict[str, Any] = {}
    if file is not None:
        try:
            whole_file = tomllib.loads(Path(file).expanduser().read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UserError(f"{file} can't be read as a map of columns: {error}.") from error
        given = whole_file.get("columns", whole_file)
    for pair in pairs:
        name, equals, column = pair.partition("=")
        if not equals:
            raise UserError(f"--map {pair!r} is not of the form NAME=COLUMN, for instance --map hop=step.")
        given[name.strip()] = column.strip()
    return {name: _column(name, value) for name, value in given.items()}


def _column(name: str, value: object) -> Column:
    if name not in _KNOWN:
        raise UserError(f"A column can't be {name!r}; it may be {', '.join(_KNOWN)}.")
    if not isinstance(value, str) or not value:
        raise UserError(f"The column for {name} is no name: {value!r}.")
    column, _, unit = value.rpartition(":")
    if not column:
        return Column(value)
    if unit not in _UNITS:
        raise UserError(f"{value!r}: a duration is in s, ms, us or ns, for instance {column}:ms.")
    return Column(column, unit)


def pieces(path: Path, columns: Columns) -> Iterator[Piece]:
    """The spans of a Parquet file, trace by trace. UserError if a column that is needed, or was named, isn't there."""
    import duckdb  # the process that decodes other files does without it

    con = duckdb.connect(":memory:", config={"threads": 1})
    try:
        con.execute("SET TimeZone = 'UTC'")
        cursor = con.execute("SELECT * FROM read_parquet(?) LIMIT 0", [str(path)])
        there = [column[0] for column in cursor.description or ()]
        places = _places(path, columns, there)
        trace = '"' + places["trace"].name.replace('"', '""') + '"'
        cursor = con.execute(f"SELECT * FROM read_parquet(?) ORDER BY {trace}", [str(path)])
        yield from _by_trace(cursor, there, places)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        yield Piece(0, Decoded([], [f"can't be read as Parquet: {reason}"], 0))
    finally:
        con.close()


def _places(path: Path, columns: Columns, there: list[str]) -> dict[str, Column]:
    places = dict(columns)
    for name, known in _KNOWN.items():
        if name not in places:
            found = next((column for column in known if column in there), None)
            if found is not None:
                places[name] = Column(found)
    listed = ", ".join(there[:20])
    for name, column in places.items():
        if column.name not in there:
            raise UserError(f"{path} has no column {column.name!r} for {name}. It has: {listed}.")
    for name in ("trace", "start"):
        if name not in places:
            raise UserError(f"{path}: which column is the {name}? Say --map {name}=COLUMN. It has: {listed}.")
    if "duration" not in places and "end" not in places:
        raise UserError(
            f"{path}: how long did a hop take? Say --map duration=COLUMN:ms, or end=COLUMN. It has: {listed}."
        )
    return places


def _by_trace(cursor: "duckdb.DuckDBPyConnection", there: list[str], places: dict[str, Column]) -> Iterator[Piece]:
    reader = _Reader(there, places)
    first = 1
    while rows := cursor.fetchmany(_ROWS_A_TIME):
        for number, row in enumerate(rows, start=first):
            done = reader.take(number, row)
            if done:
                yield Piece(number, done)
        first += len(rows)
    yield Piece(first, reader.close())


class _Reader:
    """Rows of one trace after another, to spans."""

    def __init__(self, there: list[str], places: dict[str, Column]) -> None:
        self._at = {name: (there.index(column.name), column.unit) for name, column in places.items()}
        self._trace: str | None = None
        self._hops: list[Span] = []
        self._root: Attributes = {}
        self._root_times: tuple[int | None, int | None] = (None, None)
        self._rejected: list[str] = []

    def take(self, number: int, row: Sequence[Any]) -> Decoded | None:
        """Take in a row; what came before it, if it begins another trace."""
        trace_id = ids.to_hex(_plain(self._value(row, "trace")), ids.TRACE_DIGITS)
        if trace_id is None:
            self._rejected.append(f"row {number}: no trace")
            return None
        done = self.close() if self._trace is not None and trace_id != self._trace else None
        self._trace = trace_id
        start_ns = instant(_plain(self._value(row, "start")))
        end_ns = self._end_ns(row, start_ns)
        if start_ns is None or end_ns is None or end_ns < start_ns:
            self._rejected.append(f"row {number}: no start, or no length that can be")
            return done
        self._hops.append(self._hop(number, row, trace_id, start_ns, end_ns))
        if not self._root:
            self._root = self._texts(row, _TEXTS)
            began_ns = instant(_plain(self._value(row, "trajectory_start")))
            took_ns = self._duration_ns(row, "trajectory_duration")
            self._root_times = began_ns, took_ns
        return done

    def close(self) -> Decoded:
        """The spans of the trace that was begun, and what was rejected."""
        spans = [self._trajectory(), *self._hops] if self._hops else []
        done = Decoded(spans, self._rejected, 0)
        self._hops, self._root, self._rejected = [], {}, []
        return done

    def _trajectory(self) -> Span:
        trace_id = self._trace or ""
        began_ns, took_ns = self._root_times
        start_ns = began_ns or min(hop.start_ns for hop in self._hops)
        end_ns = max(hop.end_ns for hop in self._hops)
        if took_ns is not None:
            end_ns = max(start_ns, start_ns + took_ns)
        root = Span(
            trace_id, _root_id(trace_id), None, "trajectory", 1, start_ns, end_ns, UNSET, None, SCOPE, {},
            {v.OPERATION: v.INVOKE_AGENT} | self._root,
        )  # fmt: skip
        for hop in self._hops:
            hop.parent_id = root.span_id
        return root

    def _hop(self, number: int, row: Sequence[Any], trace_id: str, start_ns: int, end_ns: int) -> Span:
        attributes: Attributes = {v.OPERATION: v.CHAT} | self._texts(row, _OF_HOP)
        for name, attribute in _TOKENS.items():
            count = whole(_number(self._value(row, name)))
            if count is not None:
                attributes[attribute] = count
        ttft_ns = self._duration_ns(row, "ttft")
        if ttft_ns is not None:
            attributes["ttft"] = ttft_ns / 1e9
        if true(self._value(row, "streamed")):
            attributes[v.REQUEST_STREAM] = True
        outcome = self._value(row, "outcome")
        if isinstance(outcome, str) and outcome:
            attributes[v.OUTCOME] = outcome
            attributes[v.ADOPTED] = True
        given = ids.to_hex(_plain(self._value(row, "span")), ids.SPAN_DIGITS)
        span_id = given or ids.to_hex(f"row {number} of {trace_id}", ids.SPAN_DIGITS) or ""
        return Span(trace_id, span_id, None, "hop", 3, start_ns, end_ns, UNSET, None, SCOPE, {}, attributes)

    def _texts(self, row: Sequence[Any], names: dict[str, str]) -> Attributes:
        found: Attributes = {}
        for name, attribute in names.items():
            value = self._value(row, name)
            if value is not None and value != "":
                found[attribute] = str(value)
        return found

    def _end_ns(self, row: Sequence[Any], start_ns: int | None) -> int | None:
        end_ns = instant(_plain(self._value(row, "end")))
        if end_ns is not None or start_ns is None:
            return end_ns
        length_ns = self._duration_ns(row, "duration")
        return None if length_ns is None else start_ns + length_ns

    def _duration_ns(self, row: Sequence[Any], name: str) -> int | None:
        value = signed(_number(self._value(row, name)))
        unit = self._at[name][1] if name in self._at else "s"
        return round(value * _UNITS[unit]) if value is not None and 0 <= value < 1e9 * 1e9 / _UNITS[unit] else None

    def _value(self, row: Sequence[Any], name: str) -> Any:
        at = self._at.get(name)
        return row[at[0]] if at is not None else None


def _root_id(trace_id: str) -> str:
    return ids.to_hex(f"trajectory of {trace_id}", ids.SPAN_DIGITS) or ""


def _plain(value: Any) -> Any:
    """A timestamp as text, which keeps its digits; a UUID too."""
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _number(value: Any) -> Any:
    """A DECIMAL as a float."""
    return value if value is None or isinstance(value, str | int | float) else float(value)
