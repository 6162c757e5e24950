"""Keys and values of every position that is kept, in blocks of `BLOCK` positions.

A sequence is a row of block numbers: position `p` is in block `table[p // BLOCK]` at `p % BLOCK`. Sequences with the
same beginning name the same blocks. Block 0 belongs to nobody: rows that only fill up a batch write there.

Invariant: this file moves numbers and knows nothing of who owns a block; that is `block_pool.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK, FIRST_BLOCKS = 16, 64
"""Positions of a block; blocks of a new cache."""
NOWHERE = 0
"""The block that nobody owns."""


class KvCache:
    """Preallocated storage that grows when asked. Keys stand with positions innermost, values with numbers innermost:
    both are then read in the order in which attention adds them up. What was not written may be anything."""

    keys: Tensor
    """`[layers, blocks, kv_heads, head_width, BLOCK]`."""
    values: Tensor
    """`[layers, blocks, kv_heads, BLOCK, head_width]`."""

    def __init__(
        self,
        *,
        layers: int,
        kv_heads: int,
        head_width: int,
        blocks: int = FIRST_BLOCKS,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.keys = torch.empty(layers, blocks, kv_heads, head_width, BLOCK, dtype=dtype, device=device)
        self.values = torch.empty(layers, blocks, kv_heads, BLOCK, head_width, dtype=dtype, device=device)

    @property
    def blocks(self) -> int:
        """How many blocks there are, the one that nobody owns included."""
        return self.keys.shape[1]

    @property
    def block_bytes(self) -> int:
        """Memory of one block over all layers, keys and values."""
        layers, _, kv_heads, head_width, _ = self.keys.shape
        return 2 * layers * kv_heads * head_width * BLOCK * self.keys.element_size()

    def grow(self, blocks: int) -> None:
        """Make room for this many blocks; what is kept stays where it is."""
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_empty(old.shape[0], blocks, *old.shape[2:])
            new[:, : old.shape[1]] = old
            setattr(self, name, new)

    def copy(self, source: int, target: int) -> None:
        """Copy a block."""
        self.keys[:, target] = self.keys[:, source]
        self.values[:, target] = self.values[:, source]

    def store(self, layer: int, blocks: Tensor, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write `[M, kv_heads, head_width]` keys and values at `[M]` places in `[M]` blocks."""
        self.keys[layer, blocks, :, :, places] = keys
        self.values[layer, blocks, :, places] = values

    def gather(self, layer: int, blocks: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of `[S, B]` blocks as `[S, kv_heads, B * BLOCK, head_width]`, copied. Positions after each
        sequence's `last` `[S]` were never written or belong to the past: they are 0."""
        unwritten = (torch.arange(blocks.shape[1] * BLOCK, device=blocks.device) > last[:, None])[:, None, :, None]
        keys = self.keys[layer][blocks].permute(0, 2, 1, 4, 3).flatten(2, 3)
        values = self.values[layer][blocks].transpose(1, 2).flatten(2, 3)
        return keys.masked_fill_(unwritten, 0.0), values.masked_fill_(unwritten, 0.0)
