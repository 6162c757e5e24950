"""What is played: `games`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from ludus.config.base import TextOrMapping
from ludus.config.problems import Contradiction, at, repeated
from ludus.config.sections.rewards import RewardConfigs
from ludus.config.sections.sampling import PromptConfig, SamplingConfig

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class GameChoice(TextOrMapping):
    """One game of the run and how often it is played. The key alone may stand for the whole."""

    shorthand: ClassVar[str] = "a game such as pgx:connect_four"
    shorthand_key: ClassVar[str] = "key"

    key: str = Field(pattern=r"^\S{1,256}$", examples=["pgx:connect_four"])
    """Backend and name: `pgx:connect_four`, `open_spiel:leduc_poker(players=3)`. `ludus games` lists them."""
    weight: float = Field(default=1.0, gt=0)
    """Relative frequency among the run's games and tasksets."""
    prompt: PromptConfig | None = None
    """Language models: how this game asks for moves; keys that are left out are those of `explore.prompt`."""
    sampling: SamplingConfig | None = None
    """Language models: how replies in it are sampled; keys that are left out are those of `explore.sampling`."""

    rewards: RewardConfigs = ()
    """Language models: what a learning seat gets for its replies besides what the rules give, the mean over them. Of
    kinds that need no answer: format, length, judge, reward_model, custom."""

    @property
    def backend(self) -> str:
        """What its key begins with; empty for a game that somebody registered."""
        return self.key.partition(":")[0] if ":" in self.key else ""


def seats_per_game(config: RunConfig) -> int:
    """Seats to reckon with: what the game's key says (`players=3`), else two; one where there are tasks alone."""
    if not config.games:
        return 1
    named = [re.search(r"[(,]\s*players=([0-9]{1,3})\s*[,)]", game.key) for game in config.games]
    return max((int(found[1]) for found in named if found), default=2)


def check_games(config: RunConfig) -> Iterator[Contradiction]:
    """No game twice, and what is for language models only with one."""
    yield from repeated(("games",), [game.key for game in config.games])
    for place, game in enumerate(config.games):
        for key in ("prompt", "sampling", "rewards"):
            if config.policy.model is None and getattr(game, key):
                yield at(("games", place, key), "is for language models; give policy.model, or leave it out")
        for number, reward in enumerate(game.rewards):
            if hasattr(reward, "answer") or reward.kind == "code":
                text = "a game has no answer to compare with; write format, length, judge, reward_model or custom"
                yield at(("games", place, "rewards", number, "kind"), text)
