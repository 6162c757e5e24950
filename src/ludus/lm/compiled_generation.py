"""The operations of generation, compiled from `kernels.c`: float32 on one thread of a CPU.

Invariant: a row's bits are the same in any company (`kernels.c` says how); the same face and the same results, to
rounding, as `torch_generation.py`.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ludus.lm.architectures import Architecture
from ludus.lm.kernels import LANES, ROWS, CachedPlan, Change, address, load_kernels
from ludus.lm.kv_cache import BLOCK, KvCache
from ludus.lm.rows import Rows
from ludus.lm.sampling import Draws
from ludus.lm.weights import Adapter, Layer, Linear, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The adapters of a pass."""

    adapters: Any
    """Where the structs of each are."""
    bounds: Any
    """First row and that after the last of each."""
    room: Tensor


class CompiledGeneration:
    """`Generation` in C. What a call returns is valid until the next call of the same kind."""

    is_exact = True

    def __init__(self, architecture: Architecture, cache: KvCache) -> None:
        """Raises CannotCompile if there is no compiler here."""
        self._kernels = load_kernels()
        self._architecture = architecture
        self._cache = cache
        self._known: WeakKeyDictionary[Adapter, tuple[Any, int]] = WeakKeyDictionary()
        self._memory: dict[str, Tensor] = {}
        self._buffers: dict[tuple[str, int, int], Tensor] = {}
        self._scores = torch.empty(2, -(-architecture.context // BLOCK) * BLOCK)
        self._room = torch.empty(2 * (architecture.vocabulary + LANES))
        self._heap = torch.empty(architecture.vocabulary, dtype=torch.int32)
        self._plan = CachedPlan()
        self._rows: Rows | None = None
        self._changes: Changes | None = None

    def begin(self, rows: Rows) -> None:
        """Put together what the kernels need."""
        a = self._architecture
        self._rows = rows  # the plan points into it
        self._plan = CachedPlan(
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
        self._changes = self._changes_of(rows)

    def rms_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square norm of `[rows, width]`."""
        out = self._buffer("normed", *x.shape)
        epsilon = self._architecture.epsilon
        self._kernels.cached_norm(x.data_ptr(), weight.data_ptr(), out.data_ptr(), *x.shape, epsilon)
        return out

    def linear(self, x: Tensor, linear: Linear, residual: Tensor | None = None) -> Tensor:
        """`residual + x @ matrix + bias`, with the spans' adapters. `residual` is written to."""
        matrix, bias = linear.matrix, linear.bias
        if residual is not None:
            out = residual.addmm_(x, matrix)
            if bias is not None:
                out.add_(bias)
        else:
            out = self._buffer("product", len(x), matrix.shape[1])
            out = torch.mm(x, matrix, out=out) if bias is None else torch.addmm(bias, x, matrix, out=out)
        if (changes := self._changes) is not None:
            self._kernels.cached_adapters(
                ctypes.addressof(changes.adapters),
                ctypes.addressof(changes.bounds),
                len(changes.adapters),
                linear.number,
                x.data_ptr(),
                x.shape[1],
                out.data_ptr(),
                out.shape[1],
                changes.room.data_ptr(),
            )
        return out

    def attention(self, qkv: Tensor, layer: Layer) -> Tensor:
        """Store keys and values; what each row takes from the positions it sees, `[M, heads * head_width]`."""
        width = self._architecture.heads * self._architecture.head_width
        queries, out = self._buffer("queries", len(qkv), width), self._buffer("seen", len(qkv), width)
        plan, norms = ctypes.addressof(self._plan), (address(layer.q_norm), address(layer.k_norm))
        self._kernels.cached_place(plan, qkv.data_ptr(), layer.number, *norms, queries.data_ptr())
        self._kernels.cached_attention(plan, queries.data_ptr(), layer.number, out.data_ptr())
        return out

    def swiglu(self, gate_up: Tensor) -> Tensor:
        """`silu(gate) * up` of `[M, 2 hidden]`."""
        rows, hidden = len(gate_up), self._architecture.hidden
        out = self._buffer("gated", rows, hidden)
        self._kernels.gate_forward(gate_up.data_ptr(), out.data_ptr(), rows, hidden)
        return out

    def _changes_of(self, rows: Rows) -> Changes | None:
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
            sites = [_change(site) for layer in adapter.layers for site in layer]
            structs = (Change * len(sites))(*sites)
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
        self._kernels.draw_tokens(
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


def _change(site: Site | None) -> Change:
    """One site of an adapter."""
    if site is None:
        return Change(parts=0)
    return Change(
        ranks=site.down.shape[1],
        parts=len(site.ups),
        first_rank=tuple(up.ranks.start for up in site.ups),
        last_rank=tuple(up.ranks.stop for up in site.ups),
        column=tuple(up.column for up in site.ups),
        columns=tuple(up.matrix.shape[1] for up in site.ups),
        down=site.down.data_ptr(),
        up=tuple(up.matrix.data_ptr() for up in site.ups),
    )
