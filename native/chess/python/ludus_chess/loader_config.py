"""What a loader is asked for. The same names as in C++ (`src/loader/config.h`), which checks the values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """Prefers positions that the search judged otherwise than the network ("diff focus").

    A position's weight is `min((alpha * (q_weight * |best_q - orig_q| + policy_kld) / (q_weight + pol_scale) + beta)
    ** gamma, tau)`. Off while `q_weight` and `pol_scale` are 0. With a rate, it multiplies the rate; with a count, it
    makes a position come early in the game's order.
    """

    q_weight: float = 0.0
    pol_scale: float = 0.0
    alpha: float = 1.0
    beta: float = 0.0
    gamma: float = 1.0
    tau: float = 1.0
    default_weight: float = 1.0
    """Of positions without a network's value (`orig_q` is NaN)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderConfig:
    """Where chunks come from, and how positions are drawn from them."""

    directory: str | Path
    """Watched with its subfolders. It need not exist yet. File names must sort in order of arrival."""
    seed: int = 0
    threads: int = 2
    """Workers that inflate and expand. Batches do not depend on it."""
    batch_size: int = 1024
    prefetch_batches: int = 2
    """Batches that are made before they are asked for."""
    pool_chunks: int = 100_000
    """A sliding window: the newest chunks, drawn without replacement."""
    min_chunks: int = 1
    """No first batch before so many chunks are there."""
    reservoir: int = 100_000
    """Positions that are mixed. Output begins at 16 batches or one pass over the pool, and it fills up from there."""
    memory_mb: int = 256
    """Of decoded games (350 bytes a position); if they do not fit, of the reservoir's positions and the next ones of
    each chunk (450 bytes each). It should hold the reservoir."""
    rate: float = 1.0
    """Share of a game's positions that one use takes: other ones at each use, all of them in 1/rate uses."""
    count: int = 0
    """Or how many positions one use takes. 0 = by rate."""
    focus: Focus = field(default_factory=Focus)
    split: Mapping[str, float] = field(default_factory=dict)
    """Weights of parts by name, as `{"train": 0.95, "validation": 0.05}`; a chunk's key decides. Empty = no split."""
    part: str = ""
    """The part that this loader gives."""
    input_format: int = 0
    """Refuse records of any other format. 0 = take all."""
    theta: float = 5 / 6
    """Decay of the short-term values (q_st, d_st) where the file has none."""
    check_moves: bool = True
    """Refuse a position that the played move does not lead to."""
    max_positions: int = 4096
    """Of one chunk; longer ones are refused."""
    max_ratio: float = 500.0
    """Inflated bytes per byte; a chunk above it is refused."""
    max_members: int = 1_000_000
    """Of one tar; what comes after is refused."""
    admit_at_anchor: bool = False
    """New chunks join the pool only when `reset_anchor` passes them, at a batch that timing does not change."""
    anchor: str = ""
    """Chunks of files behind this key count as new."""
    rescan_s: float = 10.0
    settle_s: float = 2.0
    """Where the file system cannot say whether a file has a writer: ready when unchanged for so long."""

    def to_native(self) -> dict[str, Any]:
        """As the C++ side takes it."""
        names = {"directory": os.fsencode(self.directory), "anchor": os.fsencode(self.anchor)}
        return {**asdict(self), **names, "split": list(self.split.items())}
