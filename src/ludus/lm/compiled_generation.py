"""What a decoder does between its matrix products, compiled from `kernels.c`: float32 on one thread of a CPU.

Invariant: a row's bits are the same in any company (`kernels.c` says how); the same face and the same results, to
rounding, as `torch_operations.py`.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ludus.lm.adapter_weights import SITES, Adapter, Site
from ludus.lm.architectures import Architecture
from ludus.lm.kv_cache import BLOCK, KvCache
from ludus.lm.rows import Rows
from ludus.lm.sampling import Draws
from ludus.lm.weights import LayerWeights
from ludus.runtime.native import load_library

SOURCE = Path(__file__).with_name("kernels.c")
LANES, PARTS, ROWS = 16, 3, 4
"""As in kernels.c."""


class PlanStruct(ctypes.Structure):
    """`Plan` of kernels.c."""

    _fields_ = [
        *((name, c_int64) for name in ("rows", "width", "heads", "kv_heads", "head_width", "hidden")),
        *((name, c_int64) for name in ("blocks", "table_width")),
        *((name, c_float) for name in ("epsilon", "scale")),
        *((name, c_void_p) for name in ("positions", "sequences", "tables", "cosines", "sines")),
        *((name, c_void_p) for name in ("keys", "values", "scores")),
    ]


class ChangeStruct(ctypes.Structure):
    """`Change` of kernels.c."""

    _fields_ = [
        *((name, c_int64) for name in ("ranks", "parts")),
        *((name, c_int64 * PARTS) for name in ("first_rank", "last_rank", "column", "columns")),
        ("down", c_void_p),
        ("up", c_void_p * PARTS),
    ]

    @classmethod
    def of(cls, site: Site | None) -> ChangeStruct:
        """One site of an adapter."""
        if site is None:
            return cls(parts=0)
        return cls(
            ranks=site.down.shape[1],
            parts=len(site.ups),
            first_rank=tuple(up.ranks.start for up in site.ups),
            last_rank=tuple(up.ranks.stop for up in site.ups),
            column=tuple(up.column for up in site.ups),
            columns=tuple(up.matrix.shape[1] for up in site.ups),
            down=site.down.data_ptr(),
            up=tuple(up.matrix.data_ptr() for up in site.ups),
        )


SIGNATURES: dict[str, list[Any]] = {
    "ludus_norm": [c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_float],
    "ludus_gate": [c_void_p, c_void_p, c_int64, c_int64],
    "ludus_place": [c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p],
    "ludus_attend": [c_void_p, c_void_p, c_int64, c_void_p],
    "ludus_change": [c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_int64, c_void_p],
    "ludus_draw": [c_void_p, c_int64, c_int64, c_int64, *[c_void_p] * 8],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The adapters of a pass."""

    adapters: Any
    """Where the structs of each are."""
    bounds: Any
    """First row and that after the last of each."""
    room: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all layers of one forward pass share; holds what the struct points to."""

    address: int
    struct: PlanStruct
    rows: Rows
    changes: Changes | None


class CompiledGeneration:
    """Products, norms, positions, attention, gates, adapters and draws. What a call returns is valid until the next
    call of the same kind."""

    is_exact = True

    def __init__(self, architecture: Architecture, cache: KvCache) -> None:
        """
        Raises:
            CannotCompile: there is no compiler here.
        """
        kernels = load_library(SOURCE, "-ffp-contract=off")  # kernels.c says why
        self._norm, self._gate, self._place, self._attend, self._change, self._draw = (
            _declared(kernels, name, arguments) for name, arguments in SIGNATURES.items()
        )
        self._architecture = architecture
        self._cache = cache
        self._known: WeakKeyDictionary[Adapter, tuple[Any, int]] = WeakKeyDictionary()
        self._memory: dict[str, Tensor] = {}
        self._buffers: dict[tuple[str, int, int], Tensor] = {}
        self._scores = torch.empty(2, -(-architecture.context // BLOCK) * BLOCK)
        self._room = torch.empty(2 * (architecture.vocabulary + LANES))
        self._heap = torch.empty(architecture.vocabulary, dtype=torch.int32)

    def plan(self, rows: Rows) -> Plan:
        """Put together what the kernels need."""
        a = self._architecture
        struct = PlanStruct(
            rows=len(rows),
            width=a.width,
            heads=a.heads,
            kv_heads=a.kv_heads,
            head_width=a.head_width,
            hidden=a.hidden,
            blocks=self._cache.blocks,
            table_width=rows.tables.shape[1],
            epsilon=a.epsilon,
            scale=a.head_width**-0.5,
            positions=rows.positions.ctypes.data,
            sequences=rows.sequences.ctypes.data,
            tables=rows.tables.ctypes.data,
            cosines=a.cosines.data_ptr(),
            sines=a.sines.data_ptr(),
            keys=self._cache.keys.data_ptr(),
            values=self._cache.values.data_ptr(),
            scores=self._scores.data_ptr(),
        )
        return Plan(address=ctypes.addressof(struct), struct=struct, rows=rows, changes=self._changes(rows))

    def product(self, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        """`x @ matrix + bias`."""
        out = self._buffer("product", len(x), matrix.shape[1])
        return torch.mm(x, matrix, out=out) if bias is None else torch.addmm(bias, x, matrix, out=out)

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square norm of `[rows, width]`."""
        out = self._buffer("normed", *x.shape)
        self._norm(x.data_ptr(), weight.data_ptr(), out.data_ptr(), *x.shape, self._architecture.epsilon)
        return out

    def place(self, qkv: Tensor, layer: int, weights: LayerWeights, plan: Plan) -> Tensor:
        """Store keys and values of `[M, (heads + 2 kv_heads) * head_width]`; returns the queries, ready to attend."""
        a = self._architecture
        queries = self._buffer("queries", len(qkv), a.heads * a.head_width)
        norms = (_address(weights.q_norm), _address(weights.k_norm))
        self._place(plan.address, qkv.data_ptr(), layer, *norms, queries.data_ptr())
        return queries

    def attend(self, q: Tensor, layer: int, plan: Plan) -> Tensor:
        """What each row takes from the positions it sees, `[M, heads * head_width]`."""
        out = self._buffer("seen", *q.shape)
        self._attend(plan.address, q.data_ptr(), layer, out.data_ptr())
        return out

    def gate(self, gate_up: Tensor) -> Tensor:
        """SwiGLU of `[M, 2 hidden]`."""
        rows, hidden = len(gate_up), self._architecture.hidden
        out = self._buffer("gated", rows, hidden)
        self._gate(gate_up.data_ptr(), out.data_ptr(), rows, hidden)
        return out

    def change(self, out: Tensor, x: Tensor, layer: int, site: int, plan: Plan) -> None:
        """Add the spans' adapters to the product `out` `[M, out]` of `x` `[M, in]`."""
        changes = plan.changes
        if changes is None:
            return
        self._change(
            ctypes.addressof(changes.adapters),
            ctypes.addressof(changes.bounds),
            len(changes.adapters),
            layer * len(SITES) + site,
            x.data_ptr(),
            x.shape[1],
            out.data_ptr(),
            out.shape[1],
            changes.room.data_ptr(),
        )

    def _changes(self, rows: Rows) -> Changes | None:
        spans = [span for span in rows.spans if span.weights.adapter is not None]
        if not spans:
            return None
        known = [self._structs(span.weights.adapter) for span in spans]
        return Changes(
            adapters=(c_void_p * len(spans))(*(ctypes.addressof(structs) for structs, _ in known)),
            bounds=(c_int64 * (2 * len(spans)))(*(bound for span in spans for bound in (span.start, span.stop))),
            room=self._buffer("inner", ROWS, max(ranks for _, ranks in known)),
        )

    def _structs(self, adapter: Adapter) -> tuple[Any, int]:
        """All sites of an adapter and the most ranks of one, made once, for as long as the adapter lives."""
        known = self._known.get(adapter)
        if known is None:
            sites = [ChangeStruct.of(site) for layer in adapter.layers for site in layer]
            structs = (ChangeStruct * len(sites))(*sites)
            known = self._known[adapter] = structs, max(site.ranks for site in sites)
        return known

    def _buffer(self, name: str, rows: int, columns: int) -> Tensor:
        """Memory that is used again by the next call of the same name."""
        key = name, rows, columns
        if key not in self._buffers:
            size = rows * columns
            if name not in self._memory or len(self._memory[name]) < size:
                self._memory[name] = torch.empty(size)
                self._buffers = {other: buffer for other, buffer in self._buffers.items() if other[0] != name}
            self._buffers[key] = self._memory[name][:size].view(rows, columns)
        return self._buffers[key]

    def draw(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens and their log-probabilities. See `sample_tokens`."""
        rows, vocabulary = logits.shape
        tokens, logps = np.empty(rows, np.int32), np.empty(rows, np.float32)
        self._draw(
            logits.data_ptr(),
            logits.stride(0),
            rows,
            vocabulary,
            draws.temperatures.ctypes.data,
            draws.top_p.ctypes.data,
            draws.top_k.ctypes.data,
            draws.uniforms.ctypes.data,
            self._room.data_ptr(),
            self._heap.data_ptr(),
            tokens.ctypes.data,
            logps.ctypes.data,
        )
        return tokens, logps


def _declared(kernels: ctypes.CDLL, name: str, arguments: list[Any]) -> Any:
    function = getattr(kernels, name)
    function.argtypes, function.restype = arguments, None
    return function


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
