"""What follows from a config with a population, in words: its lines of `ludus check`."""

from __future__ import annotations

from ludus.config.run import RunConfig
from ludus.config.sections.population import LeagueRulesConfig, PopulationConfig

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
_INHERITS = {
    "inherit_last": "the weights of the newest of its population",
    "inherit_best": "the weights of the one that the meta-strategy plays most",
}


def describe_population(config: RunConfig, population: PopulationConfig) -> list[Row]:
    """Name and value of everything a reader of the YAML would otherwise have to work out, where all is computed."""
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
        ("stops", f"{_stops(population, 'NashConv')}, or when no policy does better"),
        ("checkpoints", f"every {checkpoints.every or 1:,} generations, {checkpoints.keep} kept"),
        ("versions", f"every {versions:,} generations, {max(1, generations // versions):,} in the run at most"),
        ("processes", "main"),
    ]


def describe_learned(config: RunConfig, population: PopulationConfig) -> list[Row]:
    """What a population that learns adds to the lines of its learners, which are ordinary runs."""
    return [
        ("population", f"{population.scheduler}: {_scheduler(config, population)}"),
        ("seats", "one population for all seats" if population.shared else "a population for each seat"),
        ("learners begin with", _beginning(config, population)),
        ("learners learn for", _length(config, population)),
        ("at the same time", _at_once(config, population)),
        ("meta-strategy", _META_STRATEGIES[population.meta_solver]),
        ("payoffs", _payoffs(config, population)),
        ("metric", _metric(config, population)),
        ("stops", _stops(population, "NashConv (or its bound)")),
    ]


def _scheduler(config: RunConfig, population: PopulationConfig) -> str:
    """Learners and their opponents."""
    name, also = config.policy.name, "".join(f", and one by {kind}" for kind in population.learners)
    fixed = ", ".join(player for choice in config.league.opponents for player in choice.players) or "random"
    described = {
        "psro": f"in each generation an answer to the meta-strategy joins{also}",
        "pipelined_psro": (
            f"{population.pipeline} learn at once, each against the meta-strategy of those below it as they are; "
            "in each generation the lowest joins and a new one begins"
        ),
        "self_play": f"in each generation an answer to the newest policy joins{also}",
        "fixed": f"in each generation an answer to {fixed} joins{also}",
        "sequential_league": (
            f"in turns, {name} answers the meta-strategy over everybody, and {name}_exploiter the newest {name}"
        ),
        "league": _league(population.league),
    }
    return described[population.scheduler]


def _league(rules: LeagueRulesConfig) -> str:
    learners = (
        (rules.main_agents, "main agent"),
        (rules.main_exploiters, "main exploiter"),
        (rules.league_exploiters, "league exploiter"),
    )
    who = ", ".join(f"{count} {role}{'s' if count > 1 else ''}" for count, role in learners if count)
    past = max(1.0 - rules.self_play - rules.verification, 0.0)
    return (
        f"{who} learn side by side; main agents play {rules.self_play:.0%} against themselves, "
        f"{rules.verification:.0%} against those that beat them and {past:.0%} against all members (PFSP)"
    )


def _beginning(config: RunConfig, population: PopulationConfig) -> str:
    new = f"the policy of {config.policy.start}" if population.initialise == "pretrained" else "random weights"
    if population.scheduler == "sequential_league":
        return f"{config.policy.name} with the weights of its newest, exploiters with {new}"
    if population.scheduler == "league":
        reset = f"league exploiters begin anew in {population.league.reset:.0%} of the cases when frozen"
        if population.league.exploiters_begin == "main":
            new = f"{new}, exploiters with the newest weights of a main agent"
        return f"{new}; main agents go on when frozen, main exploiters begin anew, {reset}"
    if population.scheduler == "pipelined_psro":
        return new
    return _INHERITS.get(population.initialise, new)


def _length(config: RunConfig, population: PopulationConfig) -> str:
    rules, steps = population.league, config.train.steps or 0
    if population.scheduler == "pipelined_psro":
        return f"{steps:,} steps, a part of them in each generation"
    if population.scheduler != "league":
        return f"{steps:,} steps each"
    part = rules.slice_steps or max(1, steps // 50)
    freeze = rules.freeze_steps or 2 * part
    exploiters = rules.exploiter_slice_steps
    fewer = "" if exploiters is None else f", exploiters {exploiters:,}"
    sooner = "" if exploiters is None or rules.freeze_steps else f" (exploiters: {2 * exploiters:,})"
    return (
        f"{part:,} steps in each round{fewer}; frozen after {freeze:,}{sooner} with a score of "
        f"{rules.freeze_score:.0%} against each opponent, or after twice as many"
    )


def _at_once(config: RunConfig, population: PopulationConfig) -> str:
    if population.at_once is not None:
        return f"up to {population.at_once} learners"
    if config.runtime.address is not None:
        return "as many learners as fit the nodes of the cluster"
    return "as many learners as there are cores" if config.topology == "fused" else "1 learner"


def _payoffs(config: RunConfig, population: PopulationConfig) -> str:
    payoffs = population.payoffs
    if payoffs.kind == "exact":
        return "exact, computed on the tree of the game"
    extra = f"; {payoffs.extra:,} more in each generation where they tell most" if payoffs.extra else ""
    if population.scheduler == "league":
        played = f"in each round {payoffs.games:,} matches of each learner against the least-known opponents{extra}"
    else:
        played = f"{payoffs.games:,} matches of each pair and seating{extra}"
    return played if _is_played(config, population) else f"exact where that can be, else {played}"


def _is_played(config: RunConfig, population: PopulationConfig) -> bool:
    """Whether it is sure that matches are played; of other games only a look at them tells."""
    is_spiel = all(game.backend == "open_spiel" for game in config.games)
    can_be_exact = config.topology == "fused" and is_spiel and population.scheduler != "league"
    return population.payoffs.kind == "played" or not can_be_exact


def _metric(config: RunConfig, population: PopulationConfig) -> str:
    exact = "psro/nash_conv, exact"
    bound = "psro/nash_conv_bound, a lower bound: what the newest answers gain"
    if population.payoffs.kind == "exact":
        return exact
    if population.scheduler == "league":
        return "psro/policies, and the ladder"
    return bound if _is_played(config, population) else f"{exact}, or {bound}"


def _stops(population: PopulationConfig, measure: str) -> str:
    stop = population.stop
    reasons = [
        *([f"at {measure} {stop.nash_conv:g}"] if stop.nash_conv is not None else []),
        f"after {stop.generations:,} generations",
        *([f"after {stop.plateau:,} generations without a new lowest"] if stop.plateau is not None else []),
    ]
    return ", ".join(reasons)
