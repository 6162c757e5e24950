"""`kernels.c`, compiled for this processor at first use and declared: one library for training and for generation.

Invariant: the structures and constants here are those of `kernels.c`.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_float, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from ludus.runtime.native import load_library

SOURCE = Path(__file__).with_name("kernels.c")
EIGHT, LANES, PARTS, ROWS = 8, 16, 3, 4


class PackedPlan(ctypes.Structure):
    """Rows without a cache, for training."""

    _fields_ = [
        *((name, c_int64) for name in ("rows", "heads", "keys", "size", "segments")),
        ("segment", c_void_p),
        *((name, c_float) for name in ("scale", "eps")),
        *((name, c_void_p) for name in ("positions", "cosines", "sines", "norm")),
    ]


class CachedPlan(ctypes.Structure):
    """Rows over a paged cache, for generation."""

    _fields_ = [
        *((name, c_int64) for name in ("rows", "width", "heads", "kv_heads", "head_width", "hidden")),
        *((name, c_int64) for name in ("blocks", "table_width")),
        *((name, c_float) for name in ("epsilon", "scale")),
        *((name, c_void_p) for name in ("positions", "sequences", "tables", "cosines", "sines")),
        *((name, c_void_p) for name in ("keys", "values", "scores")),
    ]


class Change(ctypes.Structure):
    """What an adapter adds to one product."""

    _fields_ = [
        *((name, c_int64) for name in ("ranks", "parts")),
        *((name, c_int64 * PARTS) for name in ("first_rank", "last_rank", "column", "columns")),
        ("down", c_void_p),
        ("up", c_void_p * PARTS),
    ]


SIGNATURES: dict[str, list[Any]] = {
    "gate_forward": [*[c_void_p] * 2, c_int64, c_int64],
    "gate_backward": [*[c_void_p] * 3, c_int64, c_int64],
    "norm_forward": [*[c_void_p] * 4, c_int64, c_int64, c_float],
    "norm_backward": [*[c_void_p] * 6, c_int64, c_int64],
    "packed_attention": [POINTER(PackedPlan), *[c_void_p] * 5],
    "packed_attention_backward": [POINTER(PackedPlan), *[c_void_p] * 8],
    "cached_norm": [*[c_void_p] * 3, c_int64, c_int64, c_float],
    "cached_place": [c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p],
    "cached_attention": [c_void_p, c_void_p, c_int64, c_void_p],
    "cached_adapters": [c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_int64, c_void_p],
    "draw_tokens": [c_void_p, c_int64, c_int64, c_int64, *[c_void_p] * 8],
}


@cache
def load_kernels() -> ctypes.CDLL:
    """The compiled functions. Raises CannotCompile if there is no compiler here, or it fails."""
    library = load_library(SOURCE, "-ffp-contract=off")  # kernels.c says why
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int if name.startswith("packed_attention") else None
    return library


def address(tensor: Tensor | None) -> int | None:
    """Where a tensor's numbers are."""
    return None if tensor is None else tensor.data_ptr()
