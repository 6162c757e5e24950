"""Arrays as layers of an lc0 network file: LINEAR16, FLOAT16, BFLOAT16 and FLOAT32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ludus.chess.lc0_format.schema import ENCODINGS
from ludus.chess.lc0_format.wire import Message
from ludus.errors import CorruptRecord

_STEPS = 65535
_ROUNDING = 4e-7
"""Relative size of float32 rounding in what scales a layer there and back."""
_NAMES = {number: name for name, number in ENCODINGS.items()}
Array = NDArray[np.float32]


def layer_size(layer: Message | None) -> int:
    """How many numbers a layer holds; 0 where there is none."""
    if not layer:
        return 0
    return len(layer.get("params", b"")) // (4 if layer.get("encoding") == ENCODINGS["FLOAT32"] else 2)


def decode_layer(layer: Message, where: str) -> Array:
    """The numbers of a layer, `[N]`. A layer that names no encoding is LINEAR16."""
    encoding, data = layer.get("encoding") or ENCODINGS["LINEAR16"], layer.get("params", b"")
    name = _NAMES.get(encoding)
    if name is None or len(data) % (4 if name == "FLOAT32" else 2):
        what = f"encoding {encoding} is unknown" if name is None else f"{len(data)} bytes do not hold {name} numbers"
        raise CorruptRecord(f"{where}: {what}")
    if name == "LINEAR16":
        share = np.frombuffer(data, "<u2") / _STEPS
        low, high = float(layer.get("min_val", 0.0)), float(layer.get("max_val", 0.0))
        if not np.isfinite([low, high]).all():
            raise CorruptRecord(f"{where}: bounds {low} and {high} are not finite")
        values = (share * high + (1.0 - share) * low).astype(np.float32)
    elif name == "FLOAT16":
        values = np.frombuffer(data, "<f2").astype(np.float32)
    elif name == "BFLOAT16":
        values = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.frombuffer(data, "<f4").astype(np.float32)
    if not np.isfinite(values).all():
        raise CorruptRecord(f"{where}: holds numbers that are not finite")
    return values


def encode_layer(values: Array, encoding: str = "LINEAR16", like: Message | None = None) -> Message:
    """A layer with these numbers; one `like` it that holds the same numbers, to float32 rounding, is kept as it is."""
    values = np.ascontiguousarray(values, np.float32).reshape(-1)
    if not np.isfinite(values).all():
        raise ValueError("weights are not finite")
    if like:
        before = decode_layer(like, "layer")
        if before.size == values.size and bool((np.abs(before - values) <= _ROUNDING * np.abs(before)).all()):
            return like
        encoding = _NAMES[like.get("encoding") or ENCODINGS["LINEAR16"]]
    if encoding == "LINEAR16":
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        share = (values.astype(np.float64) - low) / (high - low if high > low else 1.0)
        return {"min_val": low, "max_val": high, "params": np.rint(share * _STEPS).astype("<u2").tobytes()}
    if encoding == "FLOAT16":
        params = np.clip(values, -65504, 65504).astype("<f2").tobytes()
    elif encoding == "BFLOAT16":
        bits = values.view(np.uint32).astype(np.uint64)
        params = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
    else:
        params = values.astype("<f4").tobytes()
    return {"params": params, "encoding": ENCODINGS[encoding]}
