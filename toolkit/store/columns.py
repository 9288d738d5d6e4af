"""Lists of Python values to columns in Arrow's layout: a few buffers each, which DuckDB reads where they lie.

They are cheap to make, to send to another process and to insert, and need no package but numpy. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import is_not
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Taken:
    """Values by their places in a shorter list."""

    values: Sequence[Any]
    at: NDArray[np.int64]

    def __len__(self) -> int:
        """How many places there are."""
        return len(self.at)


Values = Sequence[Any] | NDArray[Any] | Taken
"""What a column is made of. An array holds no None; one of texts is as `keys` makes it."""


def keys(values: Sequence[str], length: int) -> NDArray[np.bytes_] | None:
    """Texts that all have this length, to compare and to choose from; None if one has another."""
    joined = "".join(values)
    if {*map(len, values)} != {length} or not joined.isascii():
        return None
    return np.frombuffer(joined.encode(), dtype=f"S{length}")


def integers(values: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """The same as an array; TypeError if one is None."""
    return np.fromiter(values, dtype=np.int64, count=len(values))


def as_list(values: Values) -> list[Any]:
    """The same as a list of Python values."""
    if isinstance(values, Taken):
        return [values.values[at] for at in values.at.tolist()]
    if isinstance(values, np.ndarray):
        found: list[Any] = (values.astype(str) if values.dtype.kind == "S" else values).tolist()
        return found
    return list(values)


class Column(msgspec.Struct, gc=False):
    """One column in Arrow's layout; `format` is Arrow's own short name of the type."""

    format: str
    length: int
    buffers: list[Buffer | None]
    """Validity (a bit a value; None where all are there), then what the type needs."""
    children: dict[str, "Column"] = {}
    dictionary: "Column | None" = None
    """The distinct values, where the buffers hold only their numbers."""


Table = dict[str, Column]
"""Columns of one length."""


def size(table: Table) -> int:
    """The number of rows."""
    return next(iter(table.values())).length if table else 0


def texts(values: Sequence[str | None] | NDArray[np.bytes_], null: bytes = b"") -> Column:
    """Texts of which most differ; in an array, `null` stands for NULL."""
    if isinstance(values, np.ndarray):
        offsets = np.arange(len(values) + 1, dtype=np.int32) * values.dtype.itemsize
        valid = _bits(values != null) if null else None
        return Column("u", len(values), [valid, _raw(offsets), values.tobytes()])
    valid = _valid(values)
    whole: Sequence[str] = values if valid is None else [value or "" for value in values]  # type: ignore[assignment]
    joined = "".join(whole)
    if joined.isascii():
        data, lengths = joined.encode(), map(len, whole)
        return Column("u", len(values), [valid, _offsets(lengths, len(values)), data])
    column = encoded([value.encode("utf-8", "replace") for value in whole])  # a lone surrogate is no UTF-8
    return Column("u", len(values), [valid, *column.buffers[1:]])


def encoded(values: Sequence[bytes]) -> Column:
    """Texts that are UTF-8 already."""
    return Column("u", len(values), [None, _offsets(map(len, values), len(values)), b"".join(values)])


def words(values: Sequence[str | None] | Taken) -> Column:
    """Texts of which many are the same."""
    few = values.values if isinstance(values, Taken) else values
    distinct = dict.fromkeys(few)
    if len(distinct) == 1 and None in distinct:
        return nothing(len(values))
    if len(distinct) == 1:
        codes = np.zeros(len(values), dtype=np.int32)
    else:
        numbers = {value: number for number, value in enumerate(distinct)}
        codes = np.fromiter(map(numbers.__getitem__, few), dtype=np.int32, count=len(few))
        codes = codes[values.at] if isinstance(values, Taken) else codes
    return Column("i", len(values), [None, _raw(codes)], dictionary=texts(list(distinct)))


def nothing(length: int) -> Column:
    """NULL in every row."""
    return Column("n", length, [])


def whole_numbers(values: Sequence[int | None] | NDArray[Any]) -> Column:
    """Integers of 64 bits."""
    valid = None
    try:
        array = integers(values)  # type: ignore[arg-type]
    except TypeError:  # some are None
        valid = _valid(values)
        if list(values).count(None) == len(values):
            return nothing(len(values))
        array = np.array([value or 0 for value in values], dtype=np.int64)
    return Column("l", len(values), [valid, _raw(array)])


def numbers(values: Sequence[float | None] | NDArray[Any]) -> Column:
    """Floats; None is NULL."""
    valid = _valid(values)
    if valid is not None and list(values).count(None) == len(values):
        return nothing(len(values))
    return Column("g", len(values), [valid, _raw(np.array(values, dtype=np.float64))])


def truths(values: Sequence[bool | None] | NDArray[Any]) -> Column:
    """Truth values."""
    valid = _valid(values)
    if valid is not None and list(values).count(None) == len(values):
        return nothing(len(values))
    return Column("b", len(values), [valid, _bits(np.array(values, dtype=np.bool_))])


def lists_of_numbers(values: Sequence[Sequence[int] | None]) -> Column:
    """Lists of integers of 32 bits."""
    valid = _valid(values)
    if valid is not None and list(values).count(None) == len(values):
        return nothing(len(values))
    whole = [value or () for value in values]
    inner = np.array([number for value in whole for number in value], dtype=np.int32)
    offsets = _offsets(map(len, whole), len(values))
    return Column("+l", len(values), [valid, offsets], {"item": Column("i", len(inner), [None, _raw(inner)])})


def maps(values: Sequence[Mapping[str, str]] | Taken) -> Column:
    """Maps of texts to texts."""
    few, at = (values.values, values.at) if isinstance(values, Taken) else (values, np.arange(len(values)))
    lengths = np.fromiter(map(len, few), dtype=np.int64, count=len(few))
    begins = np.cumsum(lengths) - lengths
    taken = lengths[at]
    offsets = np.zeros(len(at) + 1, dtype=np.int32)
    np.cumsum(taken, out=offsets[1:])
    places = np.arange(offsets[-1]) + np.repeat(begins[at] - offsets[:-1], taken)
    entries = {
        "key": words(Taken(list(chain.from_iterable(few)), places)),
        "value": words(Taken(list(chain.from_iterable(each.values() for each in few)), places)),
    }
    return Column("+m", len(at), [None, _raw(offsets)], {"entries": Column("+s", len(places), [None], entries)})


def _valid(values: Sequence[Any] | NDArray[Any]) -> Buffer | None:
    if isinstance(values, np.ndarray) or None not in values:
        return None
    return _bits(np.fromiter(map(is_not, values, repeat(None)), dtype=np.bool_, count=len(values)))


def _bits(truth: NDArray[np.bool_]) -> Buffer:
    return _raw(np.packbits(truth, bitorder="little"))


def _offsets(lengths: Iterable[int], count: int) -> Buffer:
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.fromiter(lengths, dtype=np.int32, count=count), out=offsets[1:])
    return _raw(offsets)


def _raw(array: NDArray[Any]) -> Buffer:
    return array.data.cast("B") if array.size else b""


# --- from process to process -----------------------------------------------------------------------------------

_ALIGNED: Final = 8
_encode: Final = msgspec.msgpack.Encoder().encode


class _Shape(msgspec.Struct, gc=False):
    """A column without its buffers: their lengths only, -1 for one that is not there."""

    format: str
    length: int
    buffers: list[int]
    children: dict[str, "_Shape"]
    dictionary: "_Shape | None"


_decode_shape: Final = msgspec.msgpack.Decoder(dict[str, _Shape]).decode


def pack(table: Table) -> tuple[bytes, list[Buffer]]:
    """The table as a short description and its buffers, padded, to be written one after another."""
    out: list[Buffer] = []
    return _encode({name: _pack(column, out) for name, column in table.items()}), out


def unpack(description: bytes, content: memoryview) -> Table:
    """The table from its description and the joined buffers, which are not copied."""
    left = _Left(content)
    return {name: _unpack(shape, left) for name, shape in _decode_shape(description).items()}


class _Left:
    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._at = 0

    def take(self, length: int) -> memoryview:
        start = self._at
        self._at += length + -length % _ALIGNED
        return self._content[start : start + length]


def _pack(column: Column, out: list[Buffer]) -> _Shape:
    lengths = []
    for buffer in column.buffers:
        length = -1 if buffer is None else len(buffer)
        lengths.append(length)
        if buffer is not None:
            out.append(buffer)
            if length % _ALIGNED:
                out.append(bytes(-length % _ALIGNED))
    children = {name: _pack(child, out) for name, child in column.children.items()}
    dictionary = _pack(column.dictionary, out) if column.dictionary else None
    return _Shape(column.format, column.length, lengths, children, dictionary)


def _unpack(shape: _Shape, left: _Left) -> Column:
    buffers: list[Buffer | None] = [None if length < 0 else left.take(length) for length in shape.buffers]
    children = {name: _unpack(child, left) for name, child in shape.children.items()}
    dictionary = _unpack(shape.dictionary, left) if shape.dictionary else None
    return Column(shape.format, shape.length, buffers, children, dictionary)
