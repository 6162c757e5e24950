"""Games of chunks as tensors, whole and in order, where the loader mixes positions of many.

The same numbers as the loader's, and the same split of games into parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ludus.chess.chunk_files import Chunk, find_files, read_chunks
from ludus.chess.chunks import game_of, problem_of
from ludus.chess.learner import ChessBatch
from ludus.chess.losses import VALUE_ROWS

Floats = NDArray[np.float32]
_WORD = (1 << 64) - 1
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_FLAG_FORMATS, _STM_FORMATS, _BY_99, _ARMAGEDDON = (1,), (1, 2), (1, 2, 3), (132, 133)
_BLACK = 7
"""Bit of `invariance_info`."""


class Game(NamedTuple):
    """A sound chunk."""

    chunk: Chunk
    records: NDArray[Any]
    """Rows of `V7_DTYPE`."""


class Refused(NamedTuple):
    """A chunk that is not used, and why."""

    problem: str


def read_games(
    directory: Path, *, input_format: int, split: Mapping[str, float] | None = None, part: str = ""
) -> Iterator[Game | Refused]:
    """Every game of a directory, or those of a part, in order of names."""
    for path in find_files([directory]):
        for number, chunk in enumerate(read_chunks([path])):
            key = f"{path.name}#{number}" if path.suffix == ".tar" else path.name
            if split and not in_part(key, split, part):
                continue
            if problem := problem_of(chunk):
                yield Refused(problem)
                continue
            records = game_of(chunk)
            found = int(records["input_format"][0])
            if found != input_format:
                yield Refused(f"{chunk.source}: input format {found}; the network wants {input_format}")
                continue
            yield Game(chunk, records)


def in_part(key: str, split: Mapping[str, float], part: str) -> bool:
    """Whether a chunk is in a part, as the loader decides it: by its key alone."""
    total, before = sum(split.values()), 0.0
    for name, weight in split.items():
        if name == part:
            return before / total <= _place(key) < (before + weight) / total
        before += weight
    return False


def _place(key: str) -> float:
    value = _FNV_OFFSET
    for byte in key.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _WORD
    value = (value + 0x9E3779B97F4A7C15) & _WORD
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
    return ((value ^ (value >> 31)) >> 11) * 2.0**-53


def batch_of(records: NDArray[Any]) -> ChessBatch:
    """Tensors of some records of one input format."""
    return ChessBatch(_planes(records), np.array(records["probabilities"], np.float32), _values(records))


def concatenated(batches: Iterable[ChessBatch]) -> ChessBatch:
    """Batches as one."""
    return ChessBatch(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))


def _planes(records: NDArray[Any]) -> Floats:
    count, form = len(records), int(records["input_format"][0])
    planes = np.zeros((count, 112, 8, 8), np.float32)
    boards = np.ascontiguousarray(records["planes"]).view(np.uint8).reshape(count, 104, 8)
    planes[:, :104] = np.unpackbits(boards, axis=2).reshape(count, 104, 8, 8)
    rights = ("castling_us_ooo", "castling_us_oo", "castling_them_ooo", "castling_them_oo")
    if form in _FLAG_FORMATS:
        for place, name in enumerate(rights):
            planes[:, 104 + place] = records[name][:, None, None]
    else:
        for place, name in enumerate(rights):  # rooks with rights: ours on the first rank, theirs on the last
            planes[:, 104 + place % 2, 7 * (place // 2)] = _files(records[name])
    if form in _STM_FORMATS:
        planes[:, 108] = records["side_to_move_or_enpassant"][:, None, None]
    else:
        planes[:, 108, 7] = _files(records["side_to_move_or_enpassant"])
    scale = np.float32(99 if form in _BY_99 else 100)
    planes[:, 109] = (records["rule50_count"].astype(np.float32) / scale)[:, None, None]
    if form in _ARMAGEDDON:
        planes[:, 110] = (records["invariance_info"] >> _BLACK)[:, None, None]
    planes[:, 111] = 1
    return planes


def _files(masks: NDArray[np.uint8]) -> Floats:
    """Bits of a byte, file a first."""
    return np.unpackbits(masks[:, None], axis=1, bitorder="little").astype(np.float32)


def _values(records: NDArray[Any]) -> Floats:
    values = np.full((len(records), len(VALUE_ROWS), 3), np.nan, np.float32)
    for row, name in enumerate(VALUE_ROWS):
        q, d = ("q_st", "d_st") if name == "st" else (f"{name}_q", f"{name}_d")
        values[:, row, 0], values[:, row, 1] = records[q], records[d]
        if name != "st":
            values[:, row, 2] = records["plies_left" if name == "result" else f"{name}_m"]
    return values
