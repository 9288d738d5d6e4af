"""Columns as DuckDB takes them in without a copy: Arrow's C stream interface, made with ctypes.

https://arrow.apache.org/docs/format/CStreamInterface.html gives the layout of the structures. The buffers belong to
Python and are kept alive by the `Stream`, so the release functions that the interface asks for free nothing.
"""

import ctypes
from typing import Any, Final

import numpy as np

from hopbudget.store.columns import Buffer, Column, Table, size

_NULLABLE: Final = 2
_NOT_COUNTED: Final = -1
_int64 = ctypes.c_int64
_void = ctypes.c_void_p


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))
_GetLastError = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))

_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", _int64),
    ("n_children", _int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", _ReleaseSchema),
    ("private_data", _void),
]
_Array._fields_ = [
    ("length", _int64),
    ("null_count", _int64),
    ("offset", _int64),
    ("n_buffers", _int64),
    ("n_children", _int64),
    ("buffers", ctypes.POINTER(_void)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", _ReleaseArray),
    ("private_data", _void),
]
_Stream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _GetLastError),
    ("release", _ReleaseStream),
    ("private_data", _void),
]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [_void, ctypes.c_char_p, _void]


def _forget(released: Any) -> None:
    """Mark a structure as released, which is all that a release has to do here."""
    released.contents.release = type(released.contents.release)()


_release_schema: Final = _ReleaseSchema(_forget)
_release_array: Final = _ReleaseArray(_forget)
_release_stream: Final = _ReleaseStream(_forget)


class Stream:
    """A table that a query may read while this object is alive; older DuckDB reads it once for each registering."""

    def __init__(self, table: Table) -> None:
        whole = Column("+s", size(table), [None], table)
        self._kept: list[Any] = []
        self._schema = self._schema_of("", whole)
        self._array = self._array_of(whole)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """A capsule that holds a new stream of one batch."""
        schema, waiting = self._schema, [self._array]  # not `self`, which would then hold itself

        def get_schema(_: Any, out: Any) -> int:
            ctypes.memmove(out, ctypes.byref(schema), ctypes.sizeof(_Schema))
            return 0

        def get_next(_: Any, out: Any) -> int:
            if waiting:
                ctypes.memmove(out, ctypes.byref(waiting.pop()), ctypes.sizeof(_Array))
            else:
                ctypes.memset(out, 0, ctypes.sizeof(_Array))  # the end: an array already released
            return 0

        stream = _Stream(_GetSchema(get_schema), _GetNext(get_next), _GetLastError(_no_error), _release_stream)
        self._kept.append(stream)
        return _new_capsule(ctypes.addressof(stream), b"arrow_array_stream", None)

    def _schema_of(self, name: str, column: Column) -> _Schema:
        schema = _Schema(column.format.encode(), name.encode(), None, _NULLABLE, len(column.children))
        schema.children = self._pointers(_Schema, [self._schema_of(*item) for item in column.children.items()])
        if column.dictionary:
            schema.dictionary = ctypes.pointer(self._schema_of("", column.dictionary))
        schema.release = _release_schema
        self._kept.append(schema)
        return schema

    def _array_of(self, column: Column) -> _Array:
        buffers = (_void * max(1, len(column.buffers)))(*map(self._address, column.buffers))
        null_count = (
            column.length if column.format == "n" else 0 if column.buffers[0] is None else -1
        )  # -1: not counted
        array = _Array(column.length, null_count, 0, len(column.buffers), len(column.children))
        array.buffers = ctypes.cast(buffers, ctypes.POINTER(_void))
        array.children = self._pointers(_Array, [self._array_of(child) for child in column.children.values()])
        if column.dictionary:
            array.dictionary = ctypes.pointer(self._array_of(column.dictionary))
        array.release = _release_array
        self._kept += [array, buffers]
        return array

    def _address(self, buffer: Buffer | None) -> int | None:
        if buffer is None:
            return None
        array = np.frombuffer(buffer, dtype=np.uint8) if len(buffer) else _EMPTY
        self._kept.append(array)
        return int(array.ctypes.data)

    def _pointers(self, kind: Any, items: list[Any]) -> Any:
        pointers = (ctypes.POINTER(kind) * max(1, len(items)))(*map(ctypes.pointer, items))
        self._kept.append(pointers)
        return pointers


_EMPTY: Final = np.zeros(8, dtype=np.uint8)


def _no_error(_: Any) -> None:
    return None
