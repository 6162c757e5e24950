"""What the fused topology cannot do: the reasons for which `split` is the default, and `fused` refused."""

from __future__ import annotations

from dataclasses import dataclass

from ludus.config.problems import Path
from ludus.config.run import RunConfig
from ludus.config.sections.synchronise import SynchroniseConfig
from ludus.config.sections.train_presets import ALGORITHMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A setting that only separate processes can follow."""

    path: Path
    reason: str
    instead: str
    """What to write at the path to stay with the fused topology."""


def fused_obstacles(config: RunConfig) -> list[Obstacle]:
    """All settings that one program on one device cannot follow."""
    return [*_games(config), *_network(config), *_flow(config), *_opponents(config)]


def _games(config: RunConfig) -> list[Obstacle]:
    if config.policy.model is not None:
        reason = "a language model plays games of words"
        return [Obstacle(path=("policy", "model"), reason=reason, instead="null")]
    # Only a walk through its tree tells whether a game of OpenSpiel is small enough, so it must be asked for.
    backends = ("pgx:", "open_spiel:") if config.topology == "fused" else ("pgx:",)
    found = [
        Obstacle(path=("games", i, "key"), reason=f"{game.key} is not a pgx game", instead="a pgx: game")
        for i, game in enumerate(config.games)
        if not game.key.startswith(backends)
    ]
    if len(config.games) > 1:
        found.append(Obstacle(path=("games",), reason=f"{len(config.games)} games are played", instead="one game"))
    return found


def _network(config: RunConfig) -> list[Obstacle]:
    found = []
    critic = config.policy.critic or ALGORITHMS[config.train.algorithm.preset].critic
    if critic == "central":
        reason = "a central critic sees states that the device's games do not show"
        found.append(Obstacle(path=("policy", "critic"), reason=reason, instead="own"))
    if getattr(config.policy.network, "memory", None) is not None:
        reason = "the device's games carry no memory from one decision to the next"
        found.append(Obstacle(path=("policy", "network", "memory"), reason=reason, instead="null"))
    return found


def _flow(config: RunConfig) -> list[Obstacle]:
    found = []
    if config.schedule != "sync":
        reason = "play and training at the same time need separate processes"
        found.append(Obstacle(path=("schedule",), reason=reason, instead="sync"))
    if config.mode in ("explore", "train"):
        found.append(Obstacle(path=("mode",), reason=f"mode {config.mode} is a process of its own", instead="both"))
    if config.synchronise != SynchroniseConfig():
        reason = "explorers with versions of their own are separate processes"
        found.append(Obstacle(path=("synchronise",), reason=reason, instead="{interval: 1, offset: 0}"))
    if config.cycle is not None:
        reason = "waiting for data needs a trainer of its own"
        found.append(Obstacle(path=("cycle",), reason=reason, instead="null"))
    if config.buffer.feeds:
        reason = "what other runs play is trained on by a process of its own"
        found.append(Obstacle(path=("buffer", "feeds"), reason=reason, instead="[]"))
    if config.train.trainers > 1:
        reason = "several trainers are separate processes"
        found.append(Obstacle(path=("train", "trainers"), reason=reason, instead="1"))
    for stage in ("operators", "final", "step", "sampling"):
        if getattr(config.experience, stage):
            what = "operators" if stage == "operators" else "reward transforms"
            reason = f"{what} work on recorded episodes"
            found.append(Obstacle(path=("experience", stage), reason=reason, instead="[]"))
    return found


def _opponents(config: RunConfig) -> list[Obstacle]:
    found = []
    for i, opponent in enumerate(config.league.opponents):
        if thinkers := [name for name in opponent.players if name != "random"]:
            reason = f"{', '.join(thinkers)} cannot play on the device"
            found.append(Obstacle(path=("league", "opponents", i, "players"), reason=reason, instead="[random]"))
    return found
