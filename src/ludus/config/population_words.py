"""What follows from a config with a population, in words: its lines of `ludus check`."""

from __future__ import annotations

from ludus.config.population import PopulationConfig
from ludus.config.run import RunConfig

Row = tuple[str, str]

_META_STRATEGIES = {
    "nash": "an equilibrium of the payoff table (linear program)",
    "uniform": "all policies alike (fictitious play)",
    "pfsp": "those that do well against the newest",
    "fictitious_play": "the mean of best replies in the payoff table",
    "prd": "projected replicator dynamics",
    "regret_matching": "regret matching",
    "alpha_rank": "alpha-rank",
    "rectified_nash": "rectified Nash",
    "ce": "a correlated equilibrium",
    "cce": "a coarse correlated equilibrium",
}
_TIES = {"even": "equally good actions evenly", "first": "the first of equally good actions"}


def describe_population(config: RunConfig, population: PopulationConfig) -> list[Row]:
    """Name and value of everything a reader of the YAML would otherwise have to work out."""
    generations, versions = population.stop.generations, config.league.snapshot_every or 1
    checkpoints = config.checkpoint
    return [
        ("games", ", ".join(game.key for game in config.games)),
        ("policy", f"{config.policy.name}: a table of every information set, for both seats"),
        ("topology", f"{config.topology} (population.oracle: nothing is played, all is computed)"),
        ("population", f"{population.scheduler}, a policy of each seat joins in each generation"),
        ("best responses", f"exact, playing {_TIES[population.ties]}"),
        ("meta-strategy", _META_STRATEGIES[population.meta_solver]),
        ("metric", "psro/nash_conv, exact, after every generation"),
        ("size", f"at most {population.max_histories:,} histories"),
        ("stops", _stops(population)),
        ("checkpoints", f"every {checkpoints.every or 1:,} generations, {checkpoints.keep} kept"),
        ("versions", f"every {versions:,} generations, {max(1, generations // versions):,} in the run at most"),
        ("processes", "main"),
    ]


def _stops(population: PopulationConfig) -> str:
    stop = population.stop
    reasons = [
        *([f"at NashConv {stop.nash_conv:g}"] if stop.nash_conv is not None else []),
        f"after {stop.generations:,} generations",
        *([f"after {stop.plateau:,} generations without a new lowest"] if stop.plateau is not None else []),
    ]
    return f"{', '.join(reasons)}, or when no policy does better"
