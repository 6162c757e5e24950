"""Where batches come from: rollouts, feeds of other runs, expert rows, preference pairs, imports."""

from __future__ import annotations

from ludus.sources.protocol import Batch, BatchSource, OwnSource

__all__ = ["Batch", "BatchSource", "OwnSource"]
