"""`warm_start`: supervised training before self-play."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ludus.config.base import Model
from ludus.config.problems import Contradiction, at

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class WarmStartConfig(Model):
    """Supervised training of a language model on games of fixed players, before it plays itself.

    Every parameter is trained; what comes out is the model that the run's adapters stand on.
    """

    games: int = Field(default=2000, gt=0, le=10**7)
    """Games that the fixed players play; the moves of every seat are learnt from."""
    players: tuple[str, ...] = Field(default=("random",), strict=False, min_length=1)
    """Players, drawn for each seat of each game."""
    learn: Literal["everything", "replies"] = "everything"
    """`replies`: what the players say. `everything`: also what the game tells them, by which a model that knows nothing
    yet finds out sooner how moves and positions hang together."""
    epochs: int = Field(default=1, gt=0, le=1000)
    """Passes over the games."""
    minibatch: int = Field(default=32, gt=0)
    """Sequences per optimizer step."""
    rate: float = Field(default=3e-3, gt=0)
    """The learning rate at its highest, after a short rise; it falls to a fiftieth."""


def check_warm_start(config: RunConfig) -> Iterator[Contradiction]:
    """It is for language models, and its players are played here."""
    if config.warm_start is None:
        return
    if config.policy.model is None:
        yield at("warm_start", "is for language models; give policy.model, or leave it out")
        return
    for i, player in enumerate(config.warm_start.players):
        if player in config.explore.endpoints:
            text = f"{player} is an endpoint, and what it says is not trained on; write players such as random"
            yield at(("warm_start", "players", i), text)
