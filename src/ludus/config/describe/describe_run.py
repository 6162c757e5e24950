"""What follows from a resolved config, in words: the lines that `ludus check` prints."""

from __future__ import annotations

import math
import os
from pathlib import Path

from ludus.config.describe.describe_population import describe_learned, describe_population
from ludus.config.problems import dotted
from ludus.config.run import RunConfig
from ludus.config.sections.rewards import RewardConfigs, label_of
from ludus.config.sections.topology import fused_obstacles
from ludus.config.sections.train import MuConfig, TermConfig
from ludus.config.sections.train_presets import needs_greedy, wanted_sources

_MOST_THREADS = 4
"""Small networks gain nothing from more."""

Row = tuple[str, str]


def describe(config: RunConfig, run_dir: Path | None = None) -> list[Row]:
    """Name and value of everything a reader of the YAML would otherwise have to work out; `run_dir` of a stage."""
    where = ("run", str(run_dir or config.home))
    if config.population is not None and config.population.oracle == "exact":
        return [where, *describe_population(config, config.population)]
    if config.population is not None:
        return [where, *_what_runs(config), *describe_learned(config, config.population), *_each_learner(config)]
    if config.mode == "evaluate":
        return [where, *_what_runs(config), *_measuring(config), *_endpoints(config)]
    learning = [*_learning(config), *_intervals(config), *_machine(config)]
    return [where, *_what_runs(config), *_endpoints(config), *_batch(config), *learning]


def _each_learner(config: RunConfig) -> list[Row]:
    """The learners of a population are ordinary runs: how each of them learns."""
    renamed = {"updates in the run": "updates of a learner"}
    batch = [(renamed.get(name, name), value) for name, value in _batch(config)]
    return [*batch, *_learning(config), *_machine(config)]


def _batch(config: RunConfig) -> list[Row]:
    return _fused_batch(config) if config.topology == "fused" else _split_batch(config)


def updates_in_run(config: RunConfig) -> int | None:
    """Updates until the run is done; None where that depends on how long games or updates last."""
    train = config.train
    by_steps = math.ceil(train.steps / train.batch_steps) if train.steps and train.batch_steps else None
    known = [updates for updates in (by_steps, train.updates) if updates is not None]
    return min(known) if known and (train.steps is None or train.batch_steps) else None


def run_length(config: RunConfig) -> str:
    """`until 20,000 sampled tokens or 2 hours are done`: the first of them ends the run."""
    train, what = config.train, "steps" if config.policy.model is None else "tokens"
    counts = ((train.steps, what), (train.updates, "updates"))
    lengths = [f"{number:,} {unit}" for number, unit in counts if number]
    lengths += [_time(train.hours)] if train.hours else []
    return f"until {' or '.join(lengths)} are done"


def _time(hours: float) -> str:
    """In the largest unit of which there is at least one."""
    for unit, size in (("hours", 1.0), ("minutes", 60.0)):
        if hours * size >= 1.0:
            return f"{hours * size:.6g} {unit}"
    return f"{hours * 3600:.3g} seconds"


def _what_runs(config: RunConfig) -> list[Row]:
    is_one = len(config.games) + len(config.tasks) == 1
    games = ", ".join(game.key if is_one else f"{game.key} ({game.weight:g})" for game in config.games)
    rows = [("games", games)] if config.games else []
    rows += [(f"rewards of {game.key}", f"its own + {_rewards(game.rewards)}") for game in config.games if game.rewards]
    rows += _tasks(config) if config.tasks else []
    rows.append(("policy", f"{config.policy.name}: {_policy(config)}"))
    if teacher := config.policy.teacher:
        rows.append(("teacher", f"{teacher.path or teacher.run}, in {teacher.dtype}"))
    if config.mode == "evaluate":
        return rows
    if config.policy.start is not None:
        rows.append(("begins with", f"the policy of {config.policy.start}"))
    obstacles = fused_obstacles(config) if config.topology == "split" else []
    why = f" ({dotted(obstacles[0].path)}: {obstacles[0].reason})" if obstacles else ""
    rows.append(("topology", f"{config.topology}{why}"))
    rows.append(("schedule", config.schedule if config.mode == "both" else f"{config.schedule}, {config.mode} only"))
    return rows


def _measuring(config: RunConfig) -> list[Row]:
    evaluate, start = config.evaluate, config.policy.start or ""
    which = f"all versions of {start}" if evaluate.versions == "all" else f"the latest version of {start}"
    if "@" in start:
        which = f"one version: {start}"
    on = []
    if config.games:
        against = ", ".join(evaluate.against) or "the past versions"
        on.append(f"{evaluate.final_games:,} games against each of {against}")
    if evaluate.tasks:
        names = ", ".join(each.name for each in evaluate.tasks)
        on.append(f"every task of {names}, attempts at each: {evaluate.samples}")
    return [
        ("measures", f"{which}; nothing is trained"),
        ("evaluation", "; ".join(on)),
        ("processes", _main_and_explorers(config)),
        *_runtime(config),
    ]


def _tasks(config: RunConfig) -> list[Row]:
    total = sum(each.weight for each in config.tasks)
    one = len(config.tasks) == 1
    shares = ["" if one else f"{each.weight / total:.0%} of the tasks, " for each in config.tasks]
    sets = "; ".join(
        f"{each.name} ({share}order: {each.order.kind})" for each, share in zip(config.tasks, shares, strict=True)
    )
    own = [(f"rewards of {each.name}", _rewards(each.rewards)) for each in config.tasks if each.rewards is not None]
    shared = [] if len(own) == len(config.tasks) else [("rewards", _rewards(config.rewards))]
    return [("tasks", sets), *shared, *own]


def _rewards(rewards: RewardConfigs) -> str:
    return " + ".join(f"{each.weight:g} {label_of(each)}" for each in rewards)


def _endpoints(config: RunConfig) -> list[Row]:
    rows: list[Row] = []
    for name, each in config.explore.endpoints.items():
        key = f"key from {each.key_variable}" if each.key_variable else "no key"
        limit = "" if each.max_cost is None else f", costs at most {each.max_cost:g}"
        rows.append((f"endpoint {name}", f"{each.model} at {each.url}, {key}{limit}"))
    if judge := config.explore.judge:
        scale = f"{judge.lowest:g} to {judge.highest:g}"
        rows.append(("judge", f"{judge.endpoint}, whose score from {scale} counts {judge.weight:g} times"))
    return rows


def _policy(config: RunConfig) -> str:
    model, network = config.policy.model, config.policy.network
    if model is not None:
        trained = f"LoRA of rank {model.lora.rank}" if model.lora else "every parameter"
        warm = " after a warm start" if config.warm_start else ""
        return f"{model.path}, {trained}{warm}; {config.explore.engine.kind} engine"
    if network.kind == "custom":
        shape = network.name
    elif network.kind == "resnet":
        shape = f"{network.blocks}x{network.channels}"
    elif network.kind == "chess_residual":
        shape = f"{network.blocks}x{network.filters}, squeeze {network.squeeze}"
    elif network.kind == "chess_attention":
        shape = f"{network.layers}x{network.width}, {network.heads_per_layer} heads a layer"
    else:
        shape = "-".join(map(str, network.hidden)) + (f", gru {network.memory.size}" if network.memory else "")
    critic = f", {config.policy.critic} critic" if config.policy.critic in ("own", "central") else ""
    return f"{network.kind} {shape}{critic}{', normalised values' if config.train.value_normalisation else ''}"


def _fused_batch(config: RunConfig) -> list[Row]:
    train, games = config.train, config.explore.games_in_flight
    batch = train.batch_steps or games
    minibatches = batch // train.minibatch
    updates = updates_in_run(config)
    rows = [
        ("batch", f"{batch:,} steps ({batch // games} of each of {games:,} games)"),
        ("horizon", f"{batch // games} steps, then the value estimate"),
        ("minibatches per epoch", f"{minibatches:,} of {train.minibatch:,} steps"),
        ("optimizer steps", f"{minibatches * train.epochs:,} per update (epochs: {train.epochs})"),
        ("updates in the run", f"{updates:,} ({updates * batch:,} steps)" if updates else run_length(config)),
    ]
    if train.shards > 1:
        share = f"{train.minibatch // train.shards:,} steps of each minibatch"
        rows.append(("shards", f"{train.shards}, each with {share}; averaged every epoch"))
    return rows


def _split_batch(config: RunConfig) -> list[Row]:
    train, buffer = config.train, config.buffer
    until = f"{run_length(config)} ({'games' if config.games else 'answers'} differ in length)"
    rows = [*_batch_sizes(config), *_optimizer_steps(config), ("updates in the run", until)]
    if config.mode == "both" and "on_policy" in wanted_sources(train.algorithm):
        rows.append(("synchronisation", _synchronisation(config)))
    rows += _waiting(config)
    if config.schedule == "async":
        rows.append(("experience", f"at most {train.max_staleness} versions old, used at most {buffer.reuse} times"))
        rows.append(("buffer", f"{buffer.capacity:,} sequences, {buffer.sampler}; first batch at {buffer.min_size:,}"))
    return rows


def _waiting(config: RunConfig) -> list[Row]:
    """What feeds the run, and when it trains on that."""
    rows: list[Row] = []
    if feeds := config.buffer.feeds:
        rows.append(("fed by", ", ".join(feed.run for feed in feeds)))
        if config.schedule == "sync":
            buffer = config.buffer
            text = f"{buffer.capacity:,} sequences of any age, {buffer.sampler}, used at most {buffer.reuse} times"
            rows.append(("buffer", text))
    if cycle := config.cycle:
        grown = "" if cycle.growth == 1 else f", each round {cycle.growth:g} times as long as the one before"
        text = (
            f"wait for {cycle.new_sequences:,} new sequences, train {cycle.updates:,} updates{grown}, publish a version"
        )
        export = "" if cycle.export is None else f", export it to {cycle.export} ({cycle.keep_exports:,} kept)"
        rows.append(("cycle", f"{text}{export}"))
        least = max(cycle.new_sequences // 2, 1)
        rows.append(("carried over", f"what came in beyond that; the next round waits for {least:,} at least"))
    return rows


def _synchronisation(config: RunConfig) -> str:
    """The synchronisation style, and the lag of the weights that play."""
    pace = config.synchronise
    every = "every update" if config.publish_interval == 1 else f"every {config.publish_interval:,} updates"
    if config.schedule == "async":
        return f"driven: a version after {every}, played with as soon as it is there"
    if not pace.updates_behind:
        return f"fixed: a version after {every}, and the next batch is played with it"
    ahead = f", {pace.offset:,} batch{'es' if pace.offset > 1 else ''} played ahead" if pace.offset else ""
    versions = f"{pace.versions_behind:,} version{'' if pace.versions_behind == 1 else 's'}"
    updates = f"{pace.updates_behind:,} update{'' if pace.updates_behind == 1 else 's'}"
    return f"fixed: a version after {every}{ahead}; at most {versions} and {updates} behind"


def _optimizer_steps(config: RunConfig) -> list[Row]:
    train = config.train
    sequences = _sequences(config)
    if sequences is None:
        unit = "steps" if config.policy.model is None else "sequences"
        return [
            ("minibatches per epoch", f"one for every {train.minibatch:,} {unit} of the batch"),
            ("optimizer steps", f"{train.epochs} for every {train.minibatch:,} {unit} of the batch"),
        ]
    minibatches = math.ceil(sequences / train.minibatch)
    return [
        ("minibatches per epoch", f"{minibatches:,} ({sequences:,} sequences, up to {train.minibatch:,} in each)"),
        ("optimizer steps", f"{minibatches * train.epochs:,} per update (epochs: {train.epochs})"),
    ]


def _sequences(config: RunConfig) -> int | None:
    """Sequences in a whole batch; None where that depends on the line-up and on the length of games."""
    learns_from_play = "on_policy" in wanted_sources(config.train.algorithm)
    if config.policy.model is None or (
        learns_from_play and (bool(config.games) or config.explore.prompt.rows == "turn")
    ):
        return None
    buffer = config.buffer
    expert = (buffer.expert.rows or 0) if buffer.expert else 0
    pairs = 2 * (buffer.pairs.pairs or 0) if buffer.pairs else 0
    episodes = config.train.batch_episodes or 0
    greedy = episodes // config.explore.group if needs_greedy(config.train.algorithm) else 0
    return (episodes - greedy) * learns_from_play + expert + pairs


def _batch_sizes(config: RunConfig) -> list[Row]:
    """What a batch is made of: of the policy's own episodes, of experts' rows, of pairs."""
    wanted, group = wanted_sources(config.train.algorithm), config.explore.group
    episodes, buffer = config.train.batch_episodes or 0, config.buffer
    parts: list[Row] = []
    if "on_policy" in wanted:
        beginnings = f" ({episodes // group:,} beginnings, {group} attempts at each)" if group > 1 else ""
        parts.append(("batch", f"{episodes:,} episodes{beginnings}"))
        if needs_greedy(config.train.algorithm):
            greedy = episodes // group
            text = f"{greedy:,} of these, the last at each beginning; {episodes - greedy:,} are trained on"
            parts.append(("greedy attempts", text))
    if buffer.expert is not None:
        parts.append(("expert rows", f"{buffer.expert.rows:,} in each batch"))
    if buffer.pairs is not None:
        parts.append(("preference pairs", f"{buffer.pairs.pairs:,} in each batch"))
    return parts


def _learning(config: RunConfig) -> list[Row]:
    algorithm, optimizer = config.train.algorithm, config.train.optimizer
    terms = " + ".join(_term(term) for term in algorithm.objective or ())
    end = "" if optimizer.schedule == "constant" else f" to {optimizer.learning_rate * optimizer.final_fraction:g}"
    advantage = algorithm.advantage.kind if algorithm.advantage else "none"
    mu = [] if algorithm.mu is None else [("mu", _mu(algorithm.mu))]
    rate = f"{optimizer.learning_rate:g}{end}, {optimizer.schedule} ({optimizer.kind})"
    return [("algorithm", f"{algorithm.preset}: {terms}, {advantage}"), *mu, ("learning rate", rate)]


def _term(term: TermConfig) -> str:
    share = {"mu": "mu ", "rest": "(1 - mu) ", None: ""}[term.share]
    return f"{term.weight:g} {share}{term.loss}" + ("" if term.source == "on_policy" else f" of {term.source}")


def _mu(mu: MuConfig) -> str:
    valley = mu.peak if mu.valley is None else mu.valley
    up = f"0 to {mu.peak:g} over {mu.warmup_fraction:.0%} of the run, then " if mu.warmup_fraction else ""
    down = f"{mu.peak:g} to {valley:g} over {mu.decay_fraction:.0%} of the run, then " if mu.decay_fraction else ""
    return f"{up}{down}{valley:g}"


def _intervals(config: RunConfig) -> list[Row]:
    updates, every = updates_in_run(config), config.checkpoint.every or 1
    interval = f"{every:,} updates" if every > 1 else "update"
    count = "" if updates is None else f", {math.ceil(updates / every):,} in the run"
    evaluate, steps = config.evaluate, config.train.steps
    return [
        ("checkpoints", f"every {interval}{count}, {config.checkpoint.keep} kept"),
        ("snapshots", f"{_every(config.league.snapshot_every, steps)}, {config.league.pool_size} kept as opponents"),
        ("evaluations", f"{_every(evaluate.every, steps)}, {_measured(config)}"),
    ]


def _measured(config: RunConfig) -> str:
    evaluate = config.evaluate
    parts = []
    if config.games:
        games = evaluate.games * (len(evaluate.against) + evaluate.pool_opponents)
        how = {True: "likeliest moves", False: "moves sampled", None: "likeliest moves unless the game hides something"}
        parts.append(f"{games:,} games each; {evaluate.final_games * len(evaluate.against):,} at the end")
        parts.append(f"{how[evaluate.greedy]} (evaluate.greedy)")
    if others := ", ".join(
        f"{game.key} ({game.nodes:,} nodes a move)" if game.nodes > 1 else game.key for game in evaluate.held_out_games
    ):
        parts.append(f"{evaluate.games:,} games against each opponent of {others}, which are not trained on")
    if config.tasks or evaluate.tasks:
        ways = {True: "once, greedily", False: "once, sampled", None: "once greedily and once sampled"}
        samples = ways[evaluate.greedy] if evaluate.samples == 1 else f"{evaluate.samples} times"
        names = ", ".join(str(each.name) for each in evaluate.tasks)
        parts.append(f"every task of {names} {samples}" if names else "of nothing (evaluate.tasks is empty)")
    return "; ".join(parts)


def _every(interval: int | None, steps: int | None) -> str:
    if interval is None:
        return "every twentieth of the run"
    return f"every {interval:,} steps" + (f", {steps // interval:,} in the run" if steps else "")


def _machine(config: RunConfig) -> list[Row]:
    processes = "main and evaluator" if config.topology == "fused" else f"{_main_and_explorers(config)}, trainer"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = compute_threads(config, cores)
    is_narrow = config.topology == "fused" and config.population is None and config.train.shards == 1 < cores
    more = f"; train.shards: {min(cores, _MOST_THREADS)} uses more of them" if is_narrow else ""
    return [
        ("processes", processes),
        *_runtime(config),
        ("threads", f"{threads} to train with, 1 in each other process ({cores} cores here{more})"),
        ("disk", f"{config.record.keep_mb:,} MB of games kept, and {config.checkpoint.keep} checkpoints"),
    ]


def _runtime(config: RunConfig) -> list[Row]:
    if config.runtime.kind == "local":
        return []
    address = config.runtime.address
    cluster = "a Ray cluster that ludus starts here" if address is None else f"the Ray cluster at {address}"
    return [("runtime", f"{_on_nodes(config)} on {cluster}; main stays on this machine")]


def _on_nodes(config: RunConfig) -> str:
    """Which workers run on the nodes of a cluster."""
    if config.mode == "evaluate" or config.topology == "tabular":
        return "explorers"
    if config.topology == "fused":
        return "the learner, which plays and trains, and explorers"
    if config.buffer.loader is not None:
        return "explorers (the trainer stays here, with the data that its loader reads)"
    return "explorers and trainer"


def _main_and_explorers(config: RunConfig) -> str:
    workers = config.explore.workers
    return f"main, {workers} explorer{'s' if workers > 1 else ''}"


def compute_threads(config: RunConfig, cores: int) -> int:
    """Compute threads of the process that trains; see `runtime.threads`."""
    if config.runtime.threads is not None:
        return max(config.runtime.threads, config.train.shards)
    if config.train.shards > 1:
        return config.train.shards
    return min(max(1, cores - 1), _MOST_THREADS) if config.topology == "fused" else 1
