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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from ludus.errors import CorruptRecord, StorageError
from ludus.storage.atomic import stage_pieces, write_pieces
from ludus.storage.filesystem import REAL, FileSystem

_MOST_HEADER_BYTES = 8_000_000
_PIECE = 1 << 20
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
}


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
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in names:
        start, end = end, end + arrays[name].nbytes
        code = _CODES[arrays[name].dtype.name]
        header[name] = {"dtype": code, "shape": list(arrays[name].shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER_BYTES:
        raise StorageError(f"{path}: {len(names)} tensors need a header of {len(text)} bytes; at most 8 MB")
    pieces = [len(text).to_bytes(8, "little"), text]
    write = stage_pieces if is_staged else write_pieces
    write(path, [*pieces, *(_raw(arrays[name]) for name in names if arrays[name].size)], fs=fs)


def load_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read every tensor of a file.

    Raises:
        CorruptRecord: the file is missing, truncated, lies about itself or is something else.
    """
    _check_header(path)
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptRecord(f"{path}: not a usable safetensors file: {error}") from error


def load_metadata(path: Path) -> dict[str, str]:
    """The strings that were saved beside the tensors."""
    return {str(key): str(value) for key, value in _check_header(path).get("__metadata__", {}).items()}


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
    header = _check_header(path)
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
    if array.dtype.name not in _CODES:
        raise StorageError(f"tensor {name!r} has dtype {array.dtype}; can save {', '.join(_CODES)}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _raw(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _check_header(path: Path) -> dict[str, Any]:
    """Parse the header, bounded; offsets and dtypes are checked by the library."""
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
    return header
