"""How a policy is measured: `evaluate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ludus.config.base import Model
from ludus.config.problems import Contradiction, at, no_effect, repeated
from ludus.config.sections.league import FixedPlayer
from ludus.config.sections.tasks import TasksetConfig

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class EvaluateConfig(Model):
    """Games beside training that measure and never train."""

    every: int | None = Field(default=None, gt=0)
    """Steps between evaluations. Default: `league.snapshot_every`."""
    at_start: bool = True
    """Also measure the policy before it has learnt anything."""
    games: int = Field(default=40, ge=0)
    """Games per opponent and evaluation, seats balanced."""
    against: tuple[FixedPlayer, ...] = Field(default=("random",), strict=False)
    """Fixed players to measure against. When not given: random in runs on games, none in runs on tasks."""
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
    greedy: bool | None = None
    """Whether the policy takes the likeliest action (or token) against fixed players, in games with chance that have
    no opponent, and at held-out tasks. Default: yes in games; no where seats move at once or hide something from each
    other, since to play well there may take chance; held-out tasks are attempted both ways, once greedily and once as
    sampled in training, unless `samples` asks for more.
    Versions always sample against each other: two greedy ones would play the same game over and over."""


def check_evaluate(config: RunConfig) -> Iterator[Contradiction]:
    """What mode evaluate needs, and what is for it alone."""
    evaluate, start = config.evaluate, config.policy.start
    yield from repeated(("evaluate", "against"), evaluate.against)
    if config.mode != "evaluate":
        why = f"mode is {config.mode}; write mode: evaluate, or leave it out"
        yield from no_effect(evaluate, "evaluate", "versions", why)
        return
    if start is None:
        text = "mode is evaluate, so there must be a run to measure; write its directory, such as runs/x"
        yield at("policy.start", text)
    if evaluate.versions == "all" and "@" in (start or ""):
        text = f"policy.start names one version ({start}); write the run alone there, or leave this out"
        yield at("evaluate.versions", text)
    if not config.games and not evaluate.tasks:
        text = "mode is evaluate, so there must be something to measure on; write held-out tasksets"
        yield at("evaluate.tasks", text)
    if config.games and not evaluate.final_games:
        yield at("evaluate.final_games", "mode is evaluate, and 0 games measure nothing; write at least 1")
