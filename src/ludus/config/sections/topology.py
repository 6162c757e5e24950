"""`topology`: what `fused` cannot do, which is why `split` is the default there, and what `tabular` needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ludus.config.problems import Contradiction, Path, at, dotted
from ludus.config.run import RunConfig
from ludus.config.sections.synchronise import SynchroniseConfig
from ludus.config.sections.train_presets import preset_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A setting that only separate processes can follow."""

    path: Path
    reason: str
    instead: str
    """What to write at the path to stay with the fused topology."""


def fused_obstacles(config: RunConfig) -> list[Obstacle]:
    """All settings that one program on one device cannot follow."""
    return [*_games(config), *_settings(config)]


def _games(config: RunConfig) -> list[Obstacle]:
    if config.policy.model is not None:
        reason = "a language model plays games of words"
        return [Obstacle(path=("policy", "model"), reason=reason, instead="null")]
    # Only a walk through its tree tells whether a game of OpenSpiel is small enough, so it must be asked for.
    backends = ("pgx", "open_spiel") if config.topology == "fused" else ("pgx",)
    found = [
        Obstacle(path=("games", i, "key"), reason=f"{game.key} is not a pgx game", instead="a pgx: game")
        for i, game in enumerate(config.games)
        if game.backend not in backends
    ]
    if len(config.games) > 1:
        found.append(Obstacle(path=("games",), reason=f"{len(config.games)} games are played", instead="one game"))
    return found


def _settings(config: RunConfig) -> Iterator[Obstacle]:
    critic = config.policy.critic or preset_of(config.train.algorithm).critic
    advantage = config.train.algorithm.advantage or preset_of(config.train.algorithm).advantage
    memory = getattr(config.policy.network, "memory", None)
    own_pace = config.synchronise != SynchroniseConfig()
    custom = advantage.kind == "custom"
    recorded = "reward transforms work on recorded episodes"
    computed = "a plugin's advantage is computed from recorded episodes"
    versions = "explorers with versions of their own are separate processes"
    rows: tuple[tuple[object, str, str, str], ...] = (
        (critic == "central", "policy.critic", "a central critic sees what the device's games do not show", "own"),
        (memory, "policy.network.memory", "the device's games carry no memory from one decision to the next", "null"),
        (custom, "train.algorithm.advantage.kind", computed, "gae"),
        (config.schedule != "sync", "schedule", "play and training at the same time need separate processes", "sync"),
        (config.mode in ("explore", "train"), "mode", f"mode {config.mode} is a process of its own", "both"),
        (own_pace, "synchronise", versions, "{interval: 1, offset: 0}"),
        (config.cycle, "cycle", "waiting for data needs a trainer of its own", "null"),
        (config.buffer.feeds, "buffer.feeds", "what other runs play is trained on by a process of its own", "[]"),
        (config.train.trainers > 1, "train.trainers", "several trainers are separate processes", "1"),
        (config.experience.operators, "experience.operators", "operators work on recorded episodes", "[]"),
        (config.experience.final, "experience.final", recorded, "[]"),
        (config.experience.step, "experience.step", recorded, "[]"),
        (config.experience.sampling, "experience.sampling", recorded, "[]"),
    )
    for applies, path, reason, instead in rows:
        if applies:
            yield Obstacle(path=tuple(path.split(".")), reason=reason, instead=instead)
    for i, opponent in enumerate(config.league.opponents):
        if thinkers := [name for name in opponent.players if name != "random"]:
            reason = f"{', '.join(thinkers)} cannot play on the device"
            yield Obstacle(path=("league", "opponents", i, "players"), reason=reason, instead="[random]")


def check_topology(config: RunConfig) -> Iterator[Contradiction]:
    """A population for `tabular`, and nothing for `fused` that it cannot do."""
    if config.topology == "tabular":
        text = "tabular computes a population, and population is null; write population: {}"
        yield at("topology", text)
    for one in fused_obstacles(config) if config.topology == "fused" else ():
        keep = f"{dotted(one.path)}: {one.instead}"
        yield at(one.path, f"{one.reason}, but topology is fused; write topology: split, or {keep}")
