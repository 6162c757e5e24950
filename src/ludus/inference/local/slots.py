"""What the engine must know about each completion being written, by column, so that a step touches no Python object.

Invariant: a slot's columns belong to one job from `open` until it is closed; columns of closed slots mean nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ludus.inference.protocol import Request
from ludus.lm.kv_cache import BLOCK, NOWHERE
from ludus.lm.sampling import Draws, token_uniforms

MOST_STOPS = 8
"""Stop tokens that have a row from the beginning; more are made when a request has more."""

SAMPLING = np.dtype(
    [("seed", "u8"), ("temperature", "f4"), ("top_p", "f4"), ("top_k", "i4"), ("limit", "i4")], align=True
)
"""What a request says of its tokens; `limit` is the most that it may have."""


class Slots:
    """Columns over `count` slots. The table has one row more, whose positions are nowhere: rows that fill up a batch
    use it."""

    def __init__(self, count: int, *, context: int) -> None:
        self.count = count
        self.tokens = np.zeros(count, np.int64)
        """The last token, which is not in the cache yet."""
        self.positions = np.zeros(count + 1, np.int32)
        """Where it stands."""
        self.tables = np.full((count + 1, -(-context // BLOCK)), NOWHERE, np.int32)
        self.written = np.zeros(count, np.int32)
        """Tokens drawn so far."""
        self.out_tokens = np.zeros((count, 0), np.int32)
        self.out_logps = np.zeros((count, 0), np.float32)
        self.out_values = np.zeros((count, 0), np.float32)
        self._sampling = np.zeros(count, SAMPLING)
        self._stops = np.full((MOST_STOPS, count), -1, np.int32)
        self._free = list(range(count - 1, -1, -1))

    @property
    def nowhere(self) -> int:
        """The row of the table that belongs to no sequence."""
        return self.count

    @property
    def free(self) -> int:
        """Slots that are closed."""
        return len(self._free)

    def open(self, request: Request, blocks: list[int]) -> int:
        """Take a slot for a request whose positions are in these blocks."""
        slot = self._free.pop()
        sampling = request.sampling
        self._widen(sampling.max_tokens, len(sampling.stop_tokens))
        self.tables[slot] = NOWHERE
        self.tables[slot, : len(blocks)] = blocks
        self.positions[slot] = len(request.prompt) - 1
        self.written[slot] = 0
        seed = request.seed & 0xFFFF_FFFF_FFFF_FFFF
        self._sampling[slot] = seed, sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens
        self._stops[:, slot] = -1
        self._stops[: len(sampling.stop_tokens), slot] = sorted(sampling.stop_tokens)
        return slot

    def close(self, slot: int) -> None:
        """Give the slot back."""
        self._free.append(slot)

    def draws(self, slots: NDArray[np.int64]) -> Draws:
        """How the next token of each slot is to be drawn."""
        sampling = self._sampling
        return Draws(
            uniforms=token_uniforms(sampling["seed"][slots], self.positions[slots] + 1),
            temperatures=sampling["temperature"][slots],
            top_p=sampling["top_p"][slots],
            top_k=sampling["top_k"][slots],
        )

    def record(
        self,
        slots: NDArray[np.int64],
        tokens: NDArray[np.int32],
        logps: NDArray[np.float32],
        values: NDArray[np.float32] | None,
    ) -> NDArray[np.bool_]:
        """Append one token to each slot; returns which of them are complete."""
        written = self.written[slots]
        self.out_tokens[slots, written] = tokens
        self.out_logps[slots, written] = logps
        if values is not None:
            self.out_values[slots, written] = values
        self.tokens[slots] = tokens
        self.positions[slots] += 1
        self.written[slots] = written + 1
        is_stop = (self._stops.take(slots, 1) == tokens).any(0)
        complete: NDArray[np.bool_] = is_stop | (written + 1 >= self._sampling["limit"][slots])
        return complete

    def stopped(self, slot: int) -> bool:
        """Whether the last token was a stop token."""
        return bool((self._stops[:, slot] == self.tokens[slot]).any())

    def _widen(self, tokens: int, stops: int) -> None:
        if tokens > self.out_tokens.shape[1]:
            more = ((0, 0), (0, tokens - self.out_tokens.shape[1]))
            self.out_tokens = np.pad(self.out_tokens, more)
            self.out_logps = np.pad(self.out_logps, more)
            self.out_values = np.pad(self.out_values, more)
        if stops > len(self._stops):
            self._stops = np.pad(self._stops, ((0, stops - len(self._stops)), (0, 0)), constant_values=-1)
