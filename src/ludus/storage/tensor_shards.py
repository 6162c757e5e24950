"""Tensors cut into pieces, each piece in one of several safetensors files: how trainers that share a state write it.

The files are those of `torch.distributed.checkpoint` (its Hugging Face format): every file says in its header where its
pieces begin, so any number of readers may put them together, or read the rows that they need. Nothing is pickled.

Invariant: one piece at a time is in memory, when written and when read. A state in whole files (`weights.safetensors`,
`optimizer.safetensors`) is read by the same class, so a run may go from one trainer to several and back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.errors import CorruptRecord
from ludus.storage.filesystem import REAL, FileSystem
from ludus.storage.tensors import load_tensors, read_header, stage_stream

DCP_KEY, OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"
SHARD = "shard-{number:05d}-model-00001-of-00001.safetensors"
"""A trainer's file, as torch names it; numbers begin at 1."""
PARTS = ("weights", "optimizer")
_DTYPES = {"BOOL": "?", "F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}
_DTYPES |= {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}
"""As they lie in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows of a tensor from one on, or a whole tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offsets: tuple[int, ...]
    """Where it begins in the tensor, along each axis."""
    read: Callable[[], NDArray[Any]]
    """Its contents; called once, when it is its turn."""


def save_shard(folder: Path, number: int, pieces: Sequence[Piece], *, fs: FileSystem = REAL) -> None:
    """Write one file of a staging folder; pieces without elements are left out."""
    pieces = [piece for piece in pieces if 0 not in piece.shape]
    where = {piece.name: {OFFSETS: list(piece.offsets)} for piece in pieces}
    stage_stream(
        folder / SHARD.format(number=number),
        [(piece.name, piece.dtype, piece.shape, piece.read) for piece in pieces],
        {DCP_KEY: json.dumps(where, sort_keys=True), "format": "pt"},
        fs=fs,
    )


@dataclass(slots=True)
class _Where:
    """The pieces of one tensor."""

    dtype: str
    shape: tuple[int, ...] = ()
    pieces: list[tuple[Path, int, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    """File, first byte, offsets, and shape of each."""


class TensorFolder(Mapping[str, NDArray[Any]]):
    """All tensors of some safetensors files by name, read when they are asked for.

    Raises CorruptRecord, when it is made, for files that are none or that together lack rows of a tensor.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._tensors: dict[str, _Where] = {}
        for path in files:
            self._add(path)
        for name, where in self._tensors.items():
            if sum(prod(shape) for *_, shape in where.pieces) != prod(where.shape):
                raise CorruptRecord(f"{files[0].parent}: pieces of {name} are missing")

    def _add(self, path: Path) -> None:
        header, begin, size = read_header(path)
        try:
            known = json.loads(header.pop("__metadata__", {}).get(DCP_KEY, "{}"))
            for name, entry in header.items():
                shape = tuple(int(length) for length in entry["shape"])
                offsets = tuple(int(start) for start in known.get(name, {}).get(OFFSETS, [0] * len(shape)))
                first, last = (int(place) for place in entry["data_offsets"])
                if last - first != prod(shape) * np.dtype(_DTYPES[entry["dtype"]]).itemsize or begin + last > size:
                    raise ValueError(f"the place of {name} is not in it")
                where = self._tensors.setdefault(name, _Where(entry["dtype"], shape))
                ends = [start + length for start, length in zip(offsets, shape, strict=True)]
                where.shape = tuple(max(pair) for pair in zip(where.shape, ends, strict=True))
                where.pieces.append((path, begin + first, offsets, shape))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptRecord(f"{path}: not a usable safetensors file: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __getitem__(self, name: str) -> NDArray[Any]:
        shape = self._tensors[name].shape
        return self.rows(name, 0, shape[0]) if shape else self._scalar(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a whole tensor."""
        return self._tensors[name].shape

    def dtype(self, name: str) -> np.dtype[Any]:
        """As it is read: bfloat16 as float32."""
        kept = self._tensors[name].dtype
        return np.dtype(np.float32 if kept == "BF16" else _DTYPES[kept])

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows of a tensor, from whichever files they are in; bfloat16 as float32."""
        where = self._tensors[name]
        dtype = np.dtype(_DTYPES[where.dtype])
        if len(where.pieces) == 1:
            path, place, _, shape = where.pieces[0]
            first = place + start * prod(shape[1:]) * dtype.itemsize
            found = _read(path, first, (stop - start, *shape[1:]), dtype)
            return _as_float32(found) if where.dtype == "BF16" else found
        found = np.empty((stop - start, *where.shape[1:]), dtype)
        for path, place, offsets, shape in where.pieces:
            first, last = max(start, offsets[0]), min(stop, offsets[0] + shape[0])
            if first >= last:
                continue
            rest, width = shape[1:], prod(shape[1:]) * dtype.itemsize
            columns = tuple(slice(begin, begin + size) for begin, size in zip(offsets[1:], rest, strict=True))
            piece = _read(path, place + (first - offsets[0]) * width, (last - first, *rest), dtype)
            found[(slice(first - start, last - start), *columns)] = piece
        return _as_float32(found) if where.dtype == "BF16" else found

    def _scalar(self, name: str) -> NDArray[Any]:
        where = self._tensors[name]
        path, place, _, _ = where.pieces[0]
        found = _read(path, place, (), np.dtype(_DTYPES[where.dtype]))
        return _as_float32(found) if where.dtype == "BF16" else found


class Part(Mapping[str, NDArray[Any]]):
    """The tensors of a folder whose names begin alike, without that beginning."""

    def __init__(self, folder: TensorFolder, prefix: str) -> None:
        self._folder, self._prefix = folder, prefix
        self._names = [name.removeprefix(prefix) for name in folder if name.startswith(prefix)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> NDArray[Any]:
        found = self._folder[self._prefix + name]
        return found[0] if self._prefix and found.dtype == np.int64 and found.shape == (1,) else found

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """As of `TensorFolder`."""
        return self._folder.rows(self._prefix + name, start, stop)

    def shape(self, name: str) -> tuple[int, ...]:
        """As of `TensorFolder`."""
        return self._folder.shape(self._prefix + name)

    def dtype(self, name: str) -> np.dtype[Any]:
        """As of `TensorFolder`."""
        return self._folder.dtype(self._prefix + name)


def open_state(folder: Path) -> dict[str, Part]:
    """A state by its parts, `weights` and `optimizer`, in whole files or in pieces. Nothing but headers is read."""
    if (folder / f"{PARTS[0]}.safetensors").is_file():
        return {part: Part(TensorFolder([folder / f"{part}.safetensors"]), "") for part in PARTS}
    if not (shards := _shards(folder)):
        raise CorruptRecord(f"{folder} holds no state: no safetensors file in it")
    pieces = TensorFolder(shards)
    return {part: Part(pieces, f"{part}.") for part in PARTS}


def load_part(folder: Path, part: str) -> Mapping[str, NDArray[Any]]:
    """One part of a state: all of it from its file; or, where trainers wrote it in pieces, read tensor by tensor."""
    whole = folder / f"{part}.safetensors"
    return load_tensors(whole) if whole.is_file() or not _shards(folder) else open_state(folder)[part]


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob(SHARD.replace("{number:05d}", "*")))


def _read(path: Path, place: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        found = np.fromfile(path, dtype, prod(shape), offset=place)
        return found.reshape(shape)
    except (OSError, ValueError) as error:
        raise CorruptRecord(f"{path}: not a usable safetensors file: {error}") from error


def _as_float32(bits: NDArray[Any]) -> NDArray[Any]:
    """Numbers of bfloat16, which NumPy does not know: the upper halves of those of float32."""
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)
