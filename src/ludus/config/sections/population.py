"""Populations of policies that are made in answer to each other: `population`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ludus.config.base import Model
from ludus.config.problems import Contradiction, at, no_effect

if TYPE_CHECKING:
    from ludus.config.run import RunConfig

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
    """Learners that play everybody."""
    main_exploiters: int = Field(default=1, ge=0, le=16)
    """Learners that play the newest main agents."""
    league_exploiters: int = Field(default=1, ge=0, le=16)
    """Learners that play the whole league."""
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
    one process (topology fused), else 1; on the nodes of a Ray cluster that is joined, as many as fit."""
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


NO_EVALUATION: dict[str, Any] = {"games": 0, "final_games": 0, "against": (), "at_start": False}
"""What `evaluate` is when it is not given: exploitability is computed, and no evaluation games are played."""

_LEARNED_ONLY = "shared initialise payoffs learners at_once pipeline league"
_WHY = "population.oracle is exact"
_COUNTS: dict[str, set[str]] = {
    "policy": {"name", "model", "start"},
    "explore": set(),
    "experience": set(),
    "buffer": set(),
    "synchronise": set(),
    "train": {"steps"},
    "league": {"snapshot_every", "pool_size"},
    "evaluate": {"every", *NO_EVALUATION},
    "record": set(),
}
"""Sections about playing and training, with those of their keys that are looked at nevertheless."""
_ONE_POPULATION = ("pipelined_psro", "sequential_league", "league")


def check_exact_population(config: RunConfig) -> Iterator[Contradiction]:
    """Everything in a filled config with a population that cannot hold together."""
    yield from _what_is_played(config)
    yield from _how_it_runs(config)
    yield from _how_long(config)
    yield from _no_effect(config)
    yield from _learned_keys(config.population or PopulationConfig())


def _learned_keys(population: PopulationConfig) -> Iterator[Contradiction]:
    if population.scheduler != "psro":
        text = f"{_WHY}, which is for psro; write population.oracle: learned for {population.scheduler}"
        yield at("population.scheduler", text)
    yield from no_effect(population, "population", _LEARNED_ONLY, f"{_WHY}; leave it out")


def _what_is_played(config: RunConfig) -> Iterator[Contradiction]:
    if config.tasks:
        yield at("tasks", f"{_WHY}, which is for games; leave the tasks out, or population")
    elif len(config.games) != 1:
        text = f"{_WHY}, which is for one game, and there are {len(config.games)}; write one open_spiel: game"
        yield at("games", text)
    for i, game in enumerate(config.games):
        if game.backend != "open_spiel":
            text = f"{_WHY}, which needs a game of OpenSpiel; write an open_spiel: game, not {game.key}"
            yield at(("games", i, "key"), text)


def _how_it_runs(config: RunConfig) -> Iterator[Contradiction]:
    if config.topology != "tabular":
        text = f"{_WHY}, which is topology: tabular; leave out topology: {config.topology}, or population"
        yield at("topology", text)
    if config.schedule != "sync":
        yield at("schedule", f"{_WHY}, where nothing runs at the same time; write schedule: sync")
    if config.mode != "both":
        yield at("mode", f"{_WHY}, where nothing is played; leave out mode: {config.mode}")
    if config.cycle is not None:
        yield at("cycle", f"{_WHY}, and there is no data to wait for; leave it out, or population")
    for key in ("model", "start"):
        if getattr(config.policy, key) is not None:
            yield at(("policy", key), f"{_WHY}, and its policies are tables; leave it out, or population")
    if config.warm_start is not None:
        yield at("warm_start", f"{_WHY}, and there is nothing to train; leave it out, or population")


def _how_long(config: RunConfig) -> Iterator[Contradiction]:
    generations = config.population.stop.generations if config.population else 0
    if config.train.steps != generations:
        text = f"is {config.train.steps:,}, but population.stop.generations is {generations:,}; leave train.steps out"
        yield at("train.steps", text)
    why = f"{_WHY}, and NashConv is computed after every generation without games; leave it out"
    yield from _no_evaluation(config, why)


def _no_evaluation(config: RunConfig, why: str) -> Iterator[Contradiction]:
    wrong = [key for key, nothing in NO_EVALUATION.items() if getattr(config.evaluate, key) != nothing]
    return (at(f"evaluate.{key}", why) for key in wrong)


def _no_effect(config: RunConfig) -> Iterator[Contradiction]:
    for section, counting in _COUNTS.items():
        model = getattr(config, section)
        keys = " ".join(key for key in type(model).model_fields if key not in counting)
        yield from no_effect(model, section, keys, f"{_WHY}, so nothing is played or trained; leave it out")


def check_learned_population(config: RunConfig) -> Iterator[Contradiction]:
    """Everything in a filled config with a population that learns that cannot hold together."""
    population = config.population or PopulationConfig()
    yield from _learners_play(config)
    yield from _schedulers(population)
    yield from _learned_no_effect(config, population)
    for key in ("updates", "hours"):
        if getattr(config.train, key) is not None:
            text = "each learner of a population learns for train.steps; leave it out, and write train.steps"
            yield at(("train", key), f"{text} and population.stop")


def _learners_play(config: RunConfig) -> Iterator[Contradiction]:
    exact = config.population is not None and config.population.payoffs.kind == "exact"
    if exact and not all(game.backend == "open_spiel" for game in config.games):
        yield at("population.payoffs.kind", "exact needs a small game of OpenSpiel; write played")
    if config.tasks:
        yield at("tasks", "a population plays games; leave the tasks out, or population")
    elif len(config.games) != 1:
        yield at("games", f"a population plays one game, and there are {len(config.games)}; write one")
    if config.train.shards > 1:
        yield at("train.shards", "a population's learners already share the cores; leave it out")
    if config.mode != "both":
        yield at("mode", f"a population explores and trains; leave out mode: {config.mode}")
    if config.warm_start is not None:
        yield at("warm_start", "a population has none; warm a model up in another run and name that in policy.start")
    yield from _no_evaluation(config, "a population is measured by its own matches (population.payoffs); leave it out")


def _schedulers(population: PopulationConfig) -> Iterator[Contradiction]:
    scheduler = population.scheduler
    if not population.shared and scheduler in _ONE_POPULATION:
        yield at("population.shared", f"{scheduler} has one population for all seats; write true")
    if population.learners and (scheduler not in ("psro", "self_play", "fixed") or not population.shared):
        text = "further kinds of learners are for the scheduler psro with a shared population; leave them out"
        yield at("population.learners", text)
    if population.initialise != "random" and scheduler in _ONE_POPULATION:
        yield at("population.initialise", f"{scheduler} says itself what its learners begin with; leave it out")
    rules = population.league
    if rules.self_play + rules.verification > 1:
        yield at("population.league.verification", "is more than population.league.self_play leaves; write less")


def _learned_no_effect(config: RunConfig, population: PopulationConfig) -> Iterator[Contradiction]:
    why = "population.oracle is learned; leave it out"
    yield from no_effect(population, "population", "ties max_histories", why)
    if population.scheduler != "league":
        why = f"population.scheduler is {population.scheduler}; leave it out"
        yield from no_effect(population, "population", "league", why)
    if population.initialise == "pretrained" and config.policy.start is None:
        yield at("population.initialise", "pretrained begins with policy.start, which is null; write it, or random")
    if population.payoffs.kind == "exact":
        why = "population.payoffs.kind is exact; leave it out"
        yield from no_effect(population.payoffs, "population.payoffs", "games", why)
