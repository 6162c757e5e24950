"""The chunk loader: a directory of training chunks as batches of tensors, made by threads in C++.

    loader = ChunkLoader(LoaderConfig(directory="chunks", batch_size=1024))
    planes, policy, values = loader.get_next_batch()

A tensor's memory is used again when Python has dropped it, never before. The same files, seed and state give the same
batches, whatever the number of threads.
"""

from __future__ import annotations

import os
import zlib

import numpy as np
from numpy.typing import NDArray

from ludus_chess import _native
from ludus_chess.loader_config import LoaderConfig
from ludus_chess.loader_stats import LoaderStats, Refusal

Tensors = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]
"""Planes `[B, 112, 8, 8]`, policy `[B, 1858]` (-1 = illegal), values `[B, 6, 3]`: rows result, best, played, orig,
root, st; columns q, d, m; NaN where unknown."""

LoaderStopped = _native.LoaderStopped
"""Raised by `get_next_batch` after `stop`, also where it waits."""

_MOST_STATE_BYTES = 1 << 31


class ChunkLoader:
    """Loads from the moment it is made. Every method may be called from any thread."""

    def __init__(self, config: LoaderConfig) -> None:
        self.config = config
        self._native = _native.Loader(config.to_native())

    def get_next_batch(self, timeout_s: float | None = None) -> Tensors | None:
        """Wait for the next batch; None after `timeout_s`: there are no data yet. Raises LoaderStopped."""
        return self._native.get_next_batch(timeout_s)

    def get_stats(self) -> LoaderStats:
        """What each stage is doing. Loads are averages since the last call."""
        return LoaderStats.from_native(self._native.get_stats())

    def take_refusals(self) -> list[Refusal]:
        """Refusals since the last call, at most the newest thousand."""
        return [Refusal.from_native(refusal) for refusal in self._native.take_refusals()]

    def set_anchor(self, key: str) -> None:
        """Count chunks of files behind `key` as new."""
        self._native.set_anchor(os.fsencode(key))

    def reset_anchor(self, chunks: int | None = None) -> int:
        """Move the anchor to the newest file, or over the fewest files with `chunks` new ones; return those passed."""
        return self._native.reset_anchor(chunks)

    def state(self) -> bytes:
        """The place behind the batch that was returned last, and the anchor."""
        return zlib.compress(self._native.state(), 1)

    def load_state(self, state: bytes) -> None:
        """Continue from what `state` returned: the next batch is the one that would have come next.

        Raises:
            ValueError: It is damaged, or another config made it.
        """
        inflater = zlib.decompressobj()
        try:
            raw = inflater.decompress(state, _MOST_STATE_BYTES)
        except zlib.error as error:
            raise ValueError(f"state: {error}") from error
        if not inflater.eof:
            raise ValueError("state: truncated")
        before, self._native = self._native, _native.Loader(self.config.to_native(), raw)
        before.stop()

    def stop(self) -> None:
        """End all threads. A second call does nothing."""
        self._native.stop()

    def __enter__(self) -> ChunkLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
