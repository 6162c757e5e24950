"""Whom a fused learner meets: blocks of games, and the opponent that holds a seat in each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ludus.config import OpponentConfig
from ludus.errors import ConfigError
from ludus.league import Pool, make_sampler
from ludus.league.matchmaking.matchmaker import normalise
from ludus.records import PolicyName, PolicyRef, derive_seed

UNIFORM_PLAYER = "random"
POPULATION_LANES = 8
"""Opponents of a population that are met at the same time."""


class OpponentBlocks:
    """Opponents on the device, in blocks of games in which one seat is held by one opponent for a while.

    Each kind of `league.opponents` other than `mirror` gets a block. Its opponent changes when the pool does; its games
    then begin anew, so no game ever changes opponents midway. The kind `population` gets several, whose opponents
    are drawn again and again, so that over time each is met as often as the population says.
    """

    def __init__(self, choices: tuple[OpponentConfig, ...], games: int, players: int) -> None:
        total = sum(choice.weight for choice in choices)
        self._choices = [choice for choice in choices if choice.kind != "mirror"]
        if self._choices and players != 2:
            raise ConfigError(
                "league.opponents: the fused topology has opponents other than mirror for two players only"
            )
        for choice in self._choices:
            unplayable = [name for name in choice.players if name != UNIFORM_PLAYER]
            if unplayable:
                raise ConfigError(
                    f"league.opponents: {', '.join(unplayable)} cannot play on the device; use topology: split"
                )
        blocks = [
            size
            for choice in self._choices
            for size in _sizes(games * choice.weight / total, POPULATION_LANES if choice.kind == "population" else 1)
        ]
        self.sizes = tuple(blocks)
        if sum(self.sizes) > games:
            raise ConfigError(
                f"explore.games_in_flight: {games} games are too few for {len(self.sizes)} kinds of opponents"
            )
        self.refs: list[PolicyRef] = [PolicyRef(name=PolicyName(UNIFORM_PLAYER))] * len(self.sizes)
        self.changed = [True] * len(self.sizes)

    @property
    def is_population(self) -> bool:
        """Whether a population says who is met."""
        return any(choice.kind == "population" for choice in self._choices)

    def are_outdated(self, pool: Pool) -> bool:
        """Whether somebody plays here whom the population has not given to answer any more."""
        return pool.line_ups is not None and not {*self.refs} <= {*pool.line_ups.policies}

    def draw(self, pool: Pool, seed: int, number: int) -> None:
        """Choose each block's opponent anew. While there is no candidate, the uniform player fills in."""
        drawn: list[PolicyRef] = []
        for choice in self._choices:
            block = len(drawn)
            weighed = make_sampler(choice).weigh(pool)
            uniform = derive_seed(seed, "lane", block, number) / 2**63
            if choice.kind == "population":
                drawn += _spread(normalise(weighed), uniform, POPULATION_LANES)
                continue
            known = (UNIFORM_PLAYER, pool.learner.ref.name)
            candidates = [(ref, weight) for ref, weight in weighed if ref.name in known]
            drawn += _spread(normalise(candidates), uniform, 1) or [PolicyRef(name=PolicyName(UNIFORM_PLAYER))]
        for block, chosen in enumerate(drawn):
            self.changed[block] = self.changed[block] or chosen != self.refs[block]
            self.refs[block] = chosen

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"refs": [str(ref) for ref in self.refs], "changed": list(self.changed)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint; games in flight go on against the opponents they had."""
        self.refs = [PolicyRef.parse(text) for text in state["refs"]]
        self.changed = [bool(flag) for flag in state["changed"]]


def _sizes(games: float, blocks: int) -> list[int]:
    """Games of each block: even, so that both seats are held equally often."""
    return [max(2, round(games / blocks / 2) * 2)] * blocks


def _spread(distribution: Iterable[tuple[PolicyRef, float]], uniform: float, count: int) -> list[PolicyRef]:
    """`count` draws that are as evenly spread over the distribution as can be; none from an empty one."""
    chosen: list[PolicyRef] = []
    upper, last = 0.0, None
    for ref, probability in distribution:
        upper, last = upper + probability, ref
        while len(chosen) < count and (len(chosen) + uniform) / count < upper:
            chosen.append(ref)
    return chosen + ([last] * (count - len(chosen)) if last is not None else [])
