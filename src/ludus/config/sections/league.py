"""Whom the policy meets and how it is measured: `league` and `evaluate`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from ludus.config.base import Model
from ludus.config.problems import Contradiction, Path, at, dotted, no_effect, repeated

if TYPE_CHECKING:
    from ludus.config.run import RunConfig

FIXED_PLAYER = re.compile(r"^(random|first|mcts-[1-9][0-9]{0,5}|minimax-[1-9][0-9]?|[a-z][a-z0-9_]*(-[0-9]+)?)$")
ENGINE = re.compile(r"^uci:[^\s@]{1,400}$")


def _check_player(name: str) -> str:
    if not FIXED_PLAYER.match(name) and not ENGINE.match(name):
        raise ValueError("expected a fixed player such as random, mcts-25 or uci:stockfish?nodes=100")
    return name


FixedPlayer = Annotated[str, AfterValidator(_check_player)]


class OpponentConfig(Model):
    """One way to choose an opponent, and how often it is used."""

    kind: Literal["mirror", "lagged", "random", "fixed", "match_quality", "pfsp", "population", "custom"]
    """`mirror`: the newest version. `lagged`: uniform over past versions. `random`: uniform over past versions and
    fixed players. `fixed`: uniform over the named players. `match_quality`: in proportion to TrueSkill's quality of
    the match. `pfsp`: the opponents that win most. `population`: the opponents that a population assigned.
    `custom`: a sampler that a plugin registered."""
    weight: float = Field(default=1.0, gt=0)
    """Relative frequency of this kind of opponent."""
    players: tuple[FixedPlayer, ...] = Field(default=(), strict=False)
    """`fixed`: the players to choose from."""
    weighting: Literal["squared", "variance", "linear", "linear_capped"] = "squared"
    """`pfsp`: f(x) of the win rate x: (1-x)^2, x(1-x), 1-x or min(1/2, 1-x)."""
    name: str | None = None
    """`custom`: the name it was registered under."""


class TrueSkillConfig(Model):
    """Parameters of the rating; the defaults are the `trueskill` package's."""

    mu: float = 25.0
    """Mean of a new rating."""
    sigma: float = Field(default=25 / 3, gt=0)
    """Uncertainty of a new rating."""
    beta: float = Field(default=25 / 6, gt=0)
    """Spread of a performance around the skill."""
    tau: float = Field(default=25 / 300, ge=0)
    """Uncertainty that every game adds."""
    draw_probability: float = Field(default=0.1, ge=0, lt=1)
    """Share of games between equals that are drawn."""


class LeagueConfig(Model):
    """The pool of past versions and fixed players."""

    opponents: tuple[OpponentConfig, ...] = Field(default=(OpponentConfig(kind="mirror"),), strict=False, min_length=1)
    snapshot_every: int | None = Field(default=None, gt=0)
    """Steps between versions that join the pool. Default: a twentieth of the run."""
    pool_size: int = Field(default=16, gt=0, le=10_000)
    """Versions kept as opponents; the newest and the best-rated stay."""
    trueskill: TrueSkillConfig = TrueSkillConfig()


_RESERVED_NAMES = re.compile(r"^(random|first|mcts-\d+|minimax-\d+)$")


def check_league(config: RunConfig) -> Iterator[Contradiction]:
    """Opponents that can be chosen, a policy's name that is nobody else's, and keys of another kind of opponent."""
    for i, opponent in enumerate(config.league.opponents):
        path: Path = ("league", "opponents", i)
        if opponent.kind == "fixed" and not opponent.players:
            text = f"{dotted(path)}.kind is fixed, but has no players; write players: [random]"
            yield at((*path, "players"), text)
        if opponent.kind == "custom" and opponent.name is None:
            yield at((*path, "name"), f"{dotted(path)}.kind is custom; write the name of the registered sampler")
        for key, kind in (("players", "fixed"), ("weighting", "pfsp"), ("name", "custom")):
            if opponent.kind != kind:
                why = f"{dotted(path)}.kind is {opponent.kind}; {key} is for {kind}"
                yield from no_effect(opponent, path, key, why)
        yield from repeated((*path, "players"), opponent.players)
    named = {player for opponent in config.league.opponents for player in opponent.players}
    if _RESERVED_NAMES.match(config.policy.name) or config.policy.name in named | set(config.evaluate.against):
        yield at("policy.name", f"{config.policy.name} is a fixed player's name; write another, such as main")
