"""How a policy is measured: `evaluate`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ludus.config.base import Model
from ludus.config.sections.league import FixedPlayer
from ludus.config.sections.tasks import TasksetConfig


class EvaluateConfig(Model):
    """Games beside training that measure and never train."""

    every: int | None = Field(default=None, gt=0)
    """Steps between evaluations. Default: `league.snapshot_every`."""
    at_start: bool = True
    """Also measure the policy before it has learnt anything."""
    games: int = Field(default=40, ge=0)
    """Games per opponent and evaluation, seats balanced."""
    against: tuple[FixedPlayer, ...] = Field(default=("random",), strict=False)
    """Fixed players to measure against. When not given: random where games are played, nobody in runs on tasks."""
    tasks: tuple[TasksetConfig, ...] = Field(default=(), strict=False)
    """Held-out tasksets to measure on, in runs on tasks."""
    samples: int = Field(default=1, gt=0, le=1024)
    """Attempts at each held-out task: mean@k, best@k and pass@k are of these."""
    success: float = 1.0
    """The reward from which on an attempt counts as success in pass@k."""
    pool_opponents: int = Field(default=2, ge=0)
    """Past versions to rate each new version against."""
    versions: Literal["latest", "all"] = "latest"
    """Mode evaluate: which versions of the run in `policy.start` are measured; of `all`, those still on disk."""
    final_games: int = Field(default=400, ge=0)
    """Games per opponent when training is done, and in the mode evaluate."""
    greedy: bool = True
    """Play the likeliest action against fixed players, and in games with chance where there is nobody to play against.
    Versions always sample against each other: two greedy ones would play the same game over and over."""
