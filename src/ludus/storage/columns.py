"""Numpy columns as Arrow arrays and back, without copying where the layouts agree.

Invariant: a column survives the way there and back exactly: dtype, shape and bits. Numbers are shared, not copied;
booleans are packed to bits, as Arrow has them; strings come back as numpy object arrays of `str`. A column of arrays
`[N, *S]` is a FixedSizeList of `prod(S)` items, with `S` in the field's metadata under `shape`.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ludus.errors import CorruptRecord, StorageError

SHAPE = b"shape"
_ITEM_TYPES = {
    np.dtype(code): pa.from_numpy_dtype(np.dtype(code))
    for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
}


def flat_field(name: str, dtype: np.dtype[Any]) -> pa.Field:
    """The field of a column of single items: numbers, booleans or strings."""
    return pa.field(name, pa.string() if dtype.kind in "OU" else _item_type(name, dtype), nullable=False)


def ragged_field(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> pa.Field:
    """The field of a column of sequences of items of `shape`, which it remembers."""
    items = _item_type(name, dtype)
    values = pa.list_(items, math.prod(shape)) if shape else items
    metadata = {SHAPE: json.dumps(shape).encode()} if shape else None
    return pa.field(name, pa.large_list(values), nullable=False, metadata=metadata)


def encode_flat(column: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """A column `[n]` as the type of its `flat_field`."""
    return pa.array(column, type=kind) if column.dtype.kind in "OU" else _encode_items(column, kind)


def encode_ragged(column: NDArray[Any], kind: pa.DataType, sequences: int, offsets: pa.Buffer) -> pa.Array:
    """Cut a column `[N, *S]` at `offsets` (int64, from 0 to N), as the type of its `ragged_field`."""
    values_type = kind.value_type
    if column.ndim == 1:
        values = _encode_items(column, values_type)
    else:
        items = _encode_items(column.reshape(column.size), values_type.value_type)
        values = pa.Array.from_buffers(values_type, len(column), [None], children=[items])
    return pa.Array.from_buffers(kind, sequences, [None, offsets], children=[values])


def decode_flat(array: pa.Array) -> NDArray[Any]:
    """Back to `[n]`; the inverse of `encode_flat`."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        _refuse_nulls(array)
        strings: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return strings if strings.dtype == object else strings.astype(object)
    return _decode_items(array)


def decode_ragged(array: pa.Array, field: pa.Field) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Back to `(offsets, [N, *S])` with offsets that start at 0, also for a slice of a longer array."""
    _refuse_nulls(array)
    offsets = array.offsets.to_numpy().astype(np.int64, copy=False)
    start, stop = int(offsets[0]), int(offsets[-1])
    values = array.values.slice(start, stop - start)
    return (offsets - start if start else offsets), _decode_shaped(values, field)


def is_ragged(kind: pa.DataType) -> bool:
    """Whether a column of this type holds sequences."""
    return bool(pa.types.is_large_list(kind) or pa.types.is_list(kind))


def _decode_shaped(values: pa.Array, field: pa.Field) -> NDArray[Any]:
    if not pa.types.is_fixed_size_list(values.type):
        return _decode_items(values)
    _refuse_nulls(values)
    size = values.type.list_size
    shape = tuple(json.loads((field.metadata or {}).get(SHAPE, b"[%d]" % size)))
    if math.prod(shape) != size:
        raise CorruptRecord(f"column {field.name!r} says shape {shape} but has {size} items")
    items = values.values.slice(values.offset * size, len(values) * size)
    return _decode_items(items).reshape(len(values), *shape)


def _item_type(name: str, dtype: np.dtype[Any]) -> pa.DataType:
    kind = _ITEM_TYPES.get(dtype.newbyteorder("="))
    if kind is None:
        raise StorageError(f"column {name!r} of dtype {dtype} cannot be stored; use numbers, booleans or strings")
    return kind


def _encode_items(column: NDArray[Any], kind: pa.DataType) -> pa.Array:
    if column.dtype == np.bool_:
        bits = np.packbits(column, bitorder="little")
        return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(bits)])
    if not (column.flags.c_contiguous and column.dtype.isnative):
        column = np.ascontiguousarray(column, column.dtype.newbyteorder("="))
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])


def _decode_items(array: pa.Array) -> NDArray[Any]:
    _refuse_nulls(array)
    if not pa.types.is_boolean(array.type):
        numbers: NDArray[Any] = array.to_numpy(zero_copy_only=True)
        return numbers
    if not len(array):
        return np.zeros(0, np.bool_)
    first, skip = divmod(array.offset, 8)
    packed = np.frombuffer(array.buffers()[1], np.uint8, offset=first)
    return np.unpackbits(packed, count=skip + len(array), bitorder="little")[skip:].view(np.bool_)


def _refuse_nulls(array: pa.Array) -> None:
    if array.null_count:
        raise CorruptRecord(f"a column of type {array.type} has {array.null_count} nulls")
