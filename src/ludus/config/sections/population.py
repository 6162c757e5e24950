"""Populations of policies that are made in answer to each other: `population`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ludus.config.base import Model

Scheduler = Literal["psro", "pipelined_psro", "self_play", "fixed", "sequential_league", "league"]
MetaSolverName = Literal[
    "nash", "uniform", "pfsp", "fictitious_play", "prd", "regret_matching", "alpha_rank", "rectified_nash", "ce", "cce"
]
Initialise = Literal["random", "pretrained", "inherit_last", "inherit_best"]


class StopConfig(Model):
    """When a population is done: as soon as one of these holds, or when no policy does better any more."""

    nash_conv: float | None = Field(default=0.01, ge=0)
    """NashConv that is low enough: what the seats could gain, added up, by leaving the meta-strategy. null: none is.
    Where it cannot be computed, the bound that the newest best responses give."""
    generations: int = Field(default=500, gt=0, le=100_000)
    """Generations, at most; in a league, rounds."""
    plateau: int | None = Field(default=None, gt=0)
    """Generations in a row without a new lowest NashConv. Default: any number."""


class PayoffConfig(Model):
    """How it is found out what policies get against each other."""

    kind: Literal["exact", "played"] | None = None
    """`exact`: computed on the tree of a small game of OpenSpiel. `played`: means over matches. Default: exact where
    the oracle plays on such a tree (topology fused), else played."""
    games: int = Field(default=100, gt=0, le=1_000_000)
    """`played`: matches of each pair and seating that must be known, at least."""
    extra: int = Field(default=0, ge=0, le=1_000_000)
    """`played`: further matches in each generation, given to the pairs whose uncertainty matters most."""


class LeagueRulesConfig(Model):
    """Learners of a league, and AlphaStar's rules for freezing them."""

    main_agents: int = Field(default=1, gt=0, le=16)
    main_exploiters: int = Field(default=1, ge=0, le=16)
    league_exploiters: int = Field(default=1, ge=0, le=16)
    slice_steps: int | None = Field(default=None, gt=0)
    """Steps that every learner does in a round. Default: a fiftieth of `train.steps`."""
    exploiter_slice_steps: int | None = Field(default=None, gt=0)
    """Steps of an exploiter in a round, where the main agents are to get most of the games. Default: slice_steps."""
    exploiters_begin: Literal["random", "main"] = "random"
    """What exploiters begin with: `random` as everybody else, or the newest weights of the main agent, which find its
    weaknesses in far fewer steps."""
    freeze_steps: int | None = Field(default=None, gt=0)
    """Steps after which a learner may be frozen as a member. Default: two of its slices."""
    freeze_score: float = Field(default=0.7, gt=0, le=1)
    """A learner that has this score against each of its opponents is frozen; one that has not, after twice as many
    steps."""
    self_play: float = Field(default=0.35, ge=0, le=1)
    """Main agents: share of games against main agents as they are now."""
    verification: float = Field(default=0.15, ge=0, le=1)
    """Main agents: share of games against exploiters and forgotten versions that beat them. The rest is PFSP."""
    reset: float = Field(default=0.25, ge=0, le=1)
    """League exploiters: probability of beginning anew when frozen. Main exploiters always do."""


class LearnerConfig(Model):
    """A further kind of learner, which answers in every generation beside the others."""

    changes: dict[str, Any] = Field(default_factory=dict)
    """What differs from the keys of the run: `{policy: {model: {path: models/tiny}}, train: {steps: 20000}}`."""


class PopulationConfig(Model):
    """A population that grows by policies that answer its own mixture, computed or learnt."""

    scheduler: Scheduler = "psro"
    """`psro`: each generation, a best response to the meta-strategy joins. `pipelined_psro`: several learn at once,
    each against those below it. `self_play`: each answers the newest. `fixed`: each answers `league.opponents`.
    `sequential_league`: main agent and exploiter alternate. `league`: main agents, main exploiters and league
    exploiters learn side by side by AlphaStar's rules."""
    meta_solver: MetaSolverName = "nash"
    """What the meta-strategy is: an equilibrium of the payoff table (double oracle), all policies alike (fictitious
    play), or another meta-solver; docs/populations.md compares them."""
    meta_options: dict[str, Any] = Field(default_factory=dict)
    """Options of the meta-solver, such as `{gamma: 1e-8}`."""
    oracle: Literal["exact", "learned"] = "exact"
    """`exact`: best responses, payoffs and exploitability are computed on the whole tree of one game of OpenSpiel,
    which must be for two and zero-sum. `learned`: each answer is a policy that is trained, by any algorithm on any game
    of ludus; `train.steps` is how long each of them learns."""
    shared: bool = True
    """Learned: whether one population serves all seats; each policy then plays every seat. false: one population for
    each seat."""
    initialise: Initialise = "random"
    """Learned: what an answer begins with. `pretrained`: the policy of `policy.start`. `inherit_last`: the newest of
    its population. `inherit_best`: the one that the meta-strategy plays most."""
    payoffs: PayoffConfig = PayoffConfig()
    learners: dict[str, LearnerConfig] = Field(default_factory=dict, max_length=16)
    """PSRO, learned: further kinds of learners by name, which join the same population."""
    at_once: int | None = Field(default=None, gt=0, le=256)
    """Learned: learners of a generation that learn at the same time. Default: as many as there are cores where each is
    one process (topology fused), else 1."""
    pipeline: int = Field(default=3, gt=1, le=64)
    """`pipelined_psro`: learners at once."""
    league: LeagueRulesConfig = LeagueRulesConfig()
    ties: Literal["even", "first"] = "even"
    """Exact: what a best response plays where several actions are equally good, and where the opponent never leads: all
    of them evenly, which takes fewer generations, or the first, which makes it a pure policy."""
    max_histories: int = Field(default=1_000_000, gt=0, le=10**9)
    """Exact: histories that the game's tree may have; a larger game is refused. A million take some ten seconds to
    walk; the memory is 9 bytes for each sequence of each policy."""
    stop: StopConfig = StopConfig()
