"""How a policy is measured: `evaluate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ludus.config.base import Model, TextOrMapping
from ludus.config.problems import Contradiction, Path, at, no_effect, repeated
from ludus.config.sections.league import FixedPlayer
from ludus.config.sections.sampling import PromptConfig, SamplingConfig
from ludus.config.sections.tasks import TasksetConfig

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class HeldOutGame(TextOrMapping):
    """A game that is measured on and never trained on. The key alone may stand for the whole."""

    shorthand: ClassVar[str] = "a game such as open_spiel:tic_tac_toe"
    shorthand_key: ClassVar[str] = "key"

    key: str = Field(pattern=r"^\S{1,256}$", examples=["open_spiel:tic_tac_toe"])
    """Backend and name, as in `games`."""
    against: tuple[FixedPlayer, ...] | None = Field(default=None, strict=False)
    """Fixed players to measure against. Default: `evaluate.against`."""
    nodes: int = Field(default=1, ge=1, le=100_000)
    """Networks at chess: positions that a PUCT search evaluates before each of the policy's moves. With 1 the policy
    alone decides. A game may be listed with several numbers; results have them in their names, such as
    `evaluate/chess:openings+32_nodes/random/score`."""
    prompt: PromptConfig | None = None
    """Language models: how this game asks for moves; keys that are left out are those of `explore.prompt`."""
    sampling: SamplingConfig | None = None
    """Language models: how replies in it are sampled; keys that are left out are those of `explore.sampling`."""


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
    """Language models: held-out tasksets to measure on, in runs on tasks or on games, each with its own workflow,
    rewards and sampling."""
    held_out_games: tuple[HeldOutGame, ...] = Field(default=(), strict=False)
    """Games to measure on that are not trained on, each with its own opponents, prompt and sampling. They do not count
    into the league. A network must fit them; a language model plays any."""
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
    """What mode evaluate needs, what is for it alone, and held-out games that are none."""
    evaluate, start = config.evaluate, config.policy.start
    yield from repeated(("evaluate", "against"), evaluate.against)
    yield from _held_out(config)
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
    if not config.games and not evaluate.tasks and not evaluate.held_out_games:
        text = "mode is evaluate, so there must be something to measure on; write held-out tasksets"
        yield at("evaluate.tasks", text)
    if config.games and not evaluate.final_games:
        yield at("evaluate.final_games", "mode is evaluate, and 0 games measure nothing; write at least 1")


def _held_out(config: RunConfig) -> Iterator[Contradiction]:
    games, trained = config.evaluate.held_out_games, {game.key for game in config.games}
    listed = [f"{game.key} with {game.nodes} nodes" if game.nodes > 1 else game.key for game in games]
    yield from repeated(("evaluate", "held_out_games"), listed)
    for place, game in enumerate(games):
        path: Path = ("evaluate", "held_out_games", place)
        if game.key in trained:
            yield at((*path, "key"), f"{game.key} is trained on (games), and measured on anyway; leave it out here")
        for key in ("prompt", "sampling"):
            if config.policy.model is None and getattr(game, key):
                yield at((*path, key), "is for language models; give policy.model, or leave it out")
