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
_NUMBERS = {
    np.dtype(code): pa.from_numpy_dtype(np.dtype(code))
    for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
}


def encode_flat(column: NDArray[Any]) -> pa.Array:
    """A column of single items, `[n]`: numbers, booleans or strings."""
    if column.dtype.kind in "OU":
        return pa.array(column, type=pa.string())
    return _encode_items(column)


def encode_shaped(column: NDArray[Any]) -> pa.Array:
    """A column of arrays, `[N, *S]`; for `S = ()` the same as `encode_flat`."""
    if column.ndim == 1:
        return _encode_items(column)
    size = math.prod(column.shape[1:])
    items = _encode_items(column.reshape(len(column) * size))
    return pa.Array.from_buffers(pa.list_(items.type, size), len(column), [None], children=[items])


def encode_ragged(column: NDArray[Any], offsets: NDArray[np.int64], offsets_buffer: pa.Buffer) -> pa.Array:
    """Cut a column `[N, *S]` into sequences; `offsets` start at 0 and end at N."""
    values = encode_shaped(column)
    return pa.Array.from_buffers(
        pa.large_list(values.type), len(offsets) - 1, [None, offsets_buffer], children=[values]
    )


def field_for(name: str, kind: pa.DataType, shape: tuple[int, ...]) -> pa.Field:
    """The field of an encoded column of items of `shape`, which the list type forgets."""
    metadata = {SHAPE: json.dumps(shape).encode()} if shape else None
    return pa.field(name, kind, nullable=False, metadata=metadata)


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


def _encode_items(column: NDArray[Any]) -> pa.Array:
    kind = _NUMBERS.get(column.dtype)
    if kind is not None:
        if not column.flags.c_contiguous:
            column = np.ascontiguousarray(column)
        return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])
    if column.dtype == np.bool_:
        bits = np.packbits(column, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(column), [None, pa.py_buffer(bits)])
    if not column.dtype.isnative:
        return _encode_items(column.astype(column.dtype.newbyteorder("=")))
    raise StorageError(f"a column of dtype {column.dtype} cannot be stored; use numbers, booleans or strings")


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
