"""Populations of policies that are made by best responses to each other: `population`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ludus.config.base import Model


class StopConfig(Model):
    """When a population is done: as soon as one of these holds, or when no policy does better any more."""

    nash_conv: float | None = Field(default=0.01, ge=0)
    """NashConv that is low enough: what the seats could gain, added up, by leaving the meta-strategy. null: none is."""
    generations: int = Field(default=500, gt=0, le=100_000)
    """Generations, at most."""
    plateau: int | None = Field(default=None, gt=0)
    """Generations in a row without a new lowest NashConv. Default: any number."""


class PopulationConfig(Model):
    """A population that grows by best responses to its own mixture. With it, a run computes instead of playing."""

    scheduler: Literal["psro"] = "psro"
    """`psro`: each generation, a best response of each seat to the other's meta-strategy joins."""
    meta_solver: Literal["nash", "uniform"] = "nash"
    """What the meta-strategy is: an equilibrium of the payoff table (double oracle), or all policies alike (fictitious
    play)."""
    oracle: Literal["exact"] = "exact"
    """`exact`: best responses, payoffs and exploitability are computed on the whole tree of one game of OpenSpiel,
    which must be for two and zero-sum."""
    ties: Literal["even", "first"] = "even"
    """What a best response plays where several actions are equally good, and where the opponent never leads: all of
    them evenly, which takes fewer generations, or the first, which makes it a pure policy."""
    max_histories: int = Field(default=1_000_000, gt=0, le=10**9)
    """Histories that the game's tree may have; a larger game is refused. A million take some ten seconds to walk; the
    memory is 9 bytes for each sequence of each policy."""
    stop: StopConfig = StopConfig()
