"""Named arrays in one safetensors file, and the hash that names their contents.

Invariant: reading executes nothing and believes nothing: the header is bounded and checked before anything of its
claimed size is touched, so a lying, truncated or foreign file is a `CorruptRecord`, quickly and in little memory.

Written here piece by piece, without a second copy in memory; read by the safetensors library. Both agree in
`tests/storage/test_tensors.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from ludus.errors import CorruptRecord, StorageError
from ludus.storage.atomic import disk_errors, stage_pieces, write_pieces
from ludus.storage.filesystem import REAL, FileSystem, Piece

_MOST_HEADER_BYTES = 8_000_000
_PIECE = 1 << 20
_ROUNDED_AT_ONCE = 1 << 16
_CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "bfloat16": "BF16",
}
_WIDTH = {name: 2 if name == "bfloat16" else np.dtype(name).itemsize for name in _CODES}


def save_tensors(
    path: Path,
    tensors: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str] | None = None,
    *,
    is_staged: bool = False,
    fs: FileSystem = REAL,
) -> None:
    """Write all `tensors` to `path`, atomically, or (`is_staged`) as a new file of a staging directory.

    The bytes depend on the contents alone, not on their order.
    """
    arrays = {name: _canonical(name, array) for name, array in tensors.items()}
    # Widest items first: every tensor then starts aligned to its own width.
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    entries = [(name, arrays[name].dtype.name, arrays[name].shape) for name in names]
    write = stage_pieces if is_staged else write_pieces
    write(path, [_header(path, entries, metadata), *(_raw(arrays[name]) for name in names if arrays[name].size)], fs=fs)


Streamed = tuple[str, str, tuple[int, ...], Callable[[], NDArray[Any]]]
"""Name, type, shape, and what gives the array when it is its turn; `bfloat16` as its bits in uint16."""


def stage_stream(
    path: Path, tensors: Sequence[Streamed], metadata: Mapping[str, str] | None = None, *, fs: FileSystem = REAL
) -> None:
    """Write a new file of a staging directory, with one tensor at a time in memory."""
    ordered = sorted(tensors, key=lambda tensor: (-_WIDTH[tensor[1]], tensor[0]))
    header = _header(path, [tensor[:3] for tensor in ordered], metadata)
    size = len(header) + sum(prod(shape) * _WIDTH[dtype] for _, dtype, shape, _ in ordered)
    with disk_errors(path.parent, size, fs):
        fs.write_file(path, _Pieces(header, ordered))


@runtime_checkable
class LazyTensors(Protocol):
    """A mapping whose tensors are read when they are asked for; what they are is known before."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor."""
        ...

    def dtype(self, name: str) -> np.dtype[Any]:
        """Of a tensor."""
        ...


class RoundedTensors(Mapping[str, NDArray[Any]]):
    """float32 tensors rounded to bfloat16, one by one: as float32 to whoever looks, and in half the bytes on disk."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], besides: str) -> None:
        """Tensors whose names begin with `besides` stay as they are."""
        self._tensors, self._besides = tensors, besides

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if not self.is_rounded(name):
            return self._tensors[name]
        return (self.bits(name).astype(np.uint32) << 16).view(np.float32)

    def is_rounded(self, name: str) -> bool:
        """Whether a tensor is."""
        return not name.startswith(self._besides)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor."""
        lazy = self._tensors
        return lazy.shape(name) if isinstance(lazy, LazyTensors) else tuple(lazy[name].shape)

    def dtype(self, name: str) -> np.dtype[Any]:
        """Of a tensor, as it is read."""
        return np.dtype(np.float32)

    def bits(self, name: str) -> NDArray[np.uint16]:
        """The upper halves of its numbers, rounded to the nearest, to even in the middle; NaN stays NaN."""
        exact = np.ascontiguousarray(self._tensors[name], np.float32)
        rounded = np.empty(exact.size, np.uint16)
        flat = exact.reshape(-1)
        for start in range(0, exact.size, _ROUNDED_AT_ONCE):
            some = flat[start : start + _ROUNDED_AT_ONCE]
            whole = some.view(np.uint32)
            halves = ((whole + (((whole >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)
            halves[np.isnan(some)] = 0x7FC0
            rounded[start : start + len(some)] = halves
        return rounded.reshape(exact.shape)


def stage_named(
    path: Path, tensors: Mapping[str, NDArray[Any]], names: Sequence[str], metadata: Mapping[str, str]
) -> None:
    """Write some of the tensors as a new file of a staging directory; lazy ones one by one."""
    streamed: list[Streamed] = []
    for name in names:
        if isinstance(tensors, RoundedTensors) and tensors.is_rounded(name):
            streamed.append((name, "bfloat16", tensors.shape(name), partial(tensors.bits, name)))
        elif isinstance(tensors, LazyTensors):
            streamed.append((name, tensors.dtype(name).name, tensors.shape(name), partial(tensors.__getitem__, name)))
        else:
            array = _canonical(name, tensors[name])
            streamed.append((name, array.dtype.name, array.shape, partial(_itself, array)))
    stage_stream(path, streamed, metadata)


def _itself(array: NDArray[Any]) -> NDArray[Any]:
    return array


class _Pieces(Sequence[Piece]):
    """The bytes of a file, read from their arrays one by one."""

    def __init__(self, header: bytes, tensors: Sequence[Streamed]) -> None:
        self._header, self._tensors = header, tensors

    def __len__(self) -> int:
        return len(self._tensors) + 1

    def __getitem__(self, place: Any) -> Any:
        if place == 0:
            return self._header
        name, dtype, shape, read = self._tensors[place - 1]
        array = np.asarray(read(), order="C")
        if array.shape != shape or array.dtype.name != ("uint16" if dtype == "bfloat16" else dtype):
            raise StorageError(f"tensor {name!r} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}")
        return _raw(array)


def _header(
    path: Path, entries: Sequence[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str] | None
) -> bytes:
    """What stands before the tensors, in the order in which they follow."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, dtype, shape in entries:
        start, end = end, end + prod(shape) * _WIDTH[dtype]
        header[name] = {"dtype": _CODES[dtype], "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER_BYTES:
        raise StorageError(f"{path}: {len(entries)} tensors need a header of {len(text)} bytes; at most 8 MB")
    return len(text).to_bytes(8, "little") + text


def load_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read every tensor of a file.

    Raises:
        CorruptRecord: the file is missing, truncated, lies about itself or is something else.
    """
    read_header(path)
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptRecord(f"{path}: not a usable safetensors file: {error}") from error


def load_metadata(path: Path) -> dict[str, str]:
    """The strings that were saved beside the tensors."""
    return {str(key): str(value) for key, value in read_header(path)[0].get("__metadata__", {}).items()}


class TensorPlace(NamedTuple):
    """Where a tensor's bytes are in its file."""

    dtype: str
    """As safetensors has it, such as `F32`."""
    shape: tuple[int, ...]
    start: int
    end: int


def check_tensor_file(path: Path) -> dict[str, TensorPlace]:
    """Where each tensor of a file is, without reading any.

    Raises:
        CorruptRecord: the file is missing, cut, lies about itself or is something else.
    """
    header = read_header(path)[0]
    try:
        with path.open("rb") as file:
            begin = 8 + int.from_bytes(file.read(8), "little")
            size = os.fstat(file.fileno()).st_size
        places = {
            str(name): TensorPlace(
                str(said["dtype"]),
                tuple(map(int, said["shape"])),
                *(begin + int(offset) for offset in said["data_offsets"]),
            )
            for name, said in header.items()
            if name != "__metadata__"
        }
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise CorruptRecord(f"{path}: not a usable safetensors file: {error}") from error
    if any(not begin <= place.start <= place.end <= size for place in places.values()):
        raise CorruptRecord(f"{path}: its tensors end behind its {size} bytes")
    return places


def copy_tensor(source: Path, name: str, target: Path, *, new_name: str, is_zero: bool = False) -> None:
    """Write one tensor of a file as a file of its own, under another name, without having it in memory.

    `is_zero`: zeros of its shape instead, in no space on disk where the file system can do that.
    """
    place = check_tensor_file(source)[name]
    length = place.end - place.start
    said = {"dtype": place.dtype, "shape": list(place.shape), "data_offsets": [0, length]}
    text = json.dumps({"__metadata__": {"format": "pt"}, new_name: said}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with source.open("rb") as read, target.open("wb") as write:
        write.write(len(text).to_bytes(8, "little") + text)
        if is_zero:
            write.truncate(8 + len(text) + length)
            return
        read.seek(place.start)
        while length:
            piece = read.read(min(length, _PIECE))
            if not piece:
                raise CorruptRecord(f"{source}: it ends within {name}")
            write.write(piece)
            length -= len(piece)


def tensors_hash(tensors: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes: equal exactly when all tensors are, bit for bit."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = _canonical(name, tensors[name])
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(_raw(array))
    return digest.hexdigest()


def _canonical(name: str, array: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(array)
    if array.dtype.name not in _CODES or array.dtype.name == "bfloat16":
        known = ", ".join(name for name in _CODES if name != "bfloat16")
        raise StorageError(f"tensor {name!r} has dtype {array.dtype}; can save {known}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _raw(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def read_header(path: Path) -> tuple[dict[str, Any], int, int]:
    """Parse the header, bounded; also where the tensors begin, and the size of the file. What it says of tensors is not
    checked."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _MOST_HEADER_BYTES):
                raise CorruptRecord(f"{path}: not safetensors: a header of {length} bytes in a file of {size}")
            header = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptRecord(f"{path}: not a usable safetensors file: {error}") from error
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__", {}), dict):
        raise CorruptRecord(f"{path}: not safetensors: the header is not an object")
    return header, 8 + length, size
