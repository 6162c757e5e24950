"""The learners of a population: each is an ordinary run in `learners/<name>/`, told whom to answer by `opponents.json`.

Invariant: a learner's config follows from the population's config and its assignment alone; what changes from slice to
slice (whom to answer, until when) is not in it, so that the run goes on. In its run the policy is called `learner`; the
population's policies keep their names there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ludus.config import RunConfig, join, plain_values, report, resolve, validate
from ludus.errors import ConfigError
from ludus.league.schedulers import Assignment
from ludus.orchestrator.policy_start import follow_move
from ludus.policies import PolicyStore
from ludus.policies.store import Policy
from ludus.records import derive_seed
from ludus.runs.driver import Controls, Status
from ludus.runs.single import SingleRun, write_lm_config
from ludus.runtime import Launcher, WorkerReading
from ludus.storage.atomic import discard_tree, ensure_directory, write_json
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import RoomReading, Sink, Telemetry, added_up

LEARNER = "learner"
_NOT_MEASURED = {"games": 0, "final_games": 0, "against": [], "at_start": False, "pool_opponents": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerRuns:
    """The runs under one population."""

    config: RunConfig
    run: RunDirectory
    plugins: Sequence[str]
    strict_resume: bool
    lm_config: RunConfig | None = None
    """The config that language models sample by, where there are any."""

    def directory(self, learner: str) -> RunDirectory:
        """Where a learner's run is."""
        return RunDirectory(self.run.learners / learner)

    def open(self, assignment: Assignment, sinks: Sequence[Sink]) -> SingleRun:
        """The run of a learner, ready to begin or to go on with this assignment."""
        config, run = learner_config(self.config, assignment, self.run.path), self.directory(assignment.learner)
        ensure_directory(run.path)
        write_json(run.opponents, assignment.opponents.to_json())
        write_lm_config(run, self.lm_config)
        ensure_directory(run.policies)
        for name in sorted({str(ref.name) for ref in assignment.opponents.policies if ref.version}):
            link = run.policies / name
            if link.is_dir() and not link.is_symlink():
                discard_tree(link)  # somebody copied the run and followed its links
            with suppress(FileExistsError):
                os.symlink(Path("..", "..", "..", "policies", name), link)
        if run.is_run():
            follow_move(run, config.policy.start)
        learner = SingleRun(config, run.path, plugins=self.plugins, strict_resume=self.strict_resume, sinks=sinks)
        learner.until = assignment.until
        return learner

    def result(self, learner: str) -> Policy[Any]:
        """What a learner has become: its newest version."""
        store = PolicyStore(self.directory(learner).policies)
        return store.load(store.versions(LEARNER)[-1])

    def discard(self, keep: set[str]) -> None:
        """Remove the runs of learners that are done with."""
        if self.run.learners.is_dir():
            for path in self.run.learners.iterdir():
                if path.name not in keep and not path.name.startswith("."):
                    discard_tree(path)


def learner_config(config: RunConfig, assignment: Assignment, run: Path) -> RunConfig:
    """The config of a learner's run, resolved.

    Raises:
        ConfigError: what the population's config says of its learners is no config of a run.
    """
    values = _values_of(config, assignment.agent)
    policy = {**values.get("policy", {}), "name": LEARNER}
    if assignment.begins_with is not None:
        policy["start"] = f"{run}@{assignment.begins_with}"
    elif config.population is not None and config.population.initialise != "pretrained":
        policy["start"] = values.get("policy", {}).get("start") if assignment.agent in _kinds(config) else None
    opponents: list[dict[str, Any]] = [{"kind": "population", "weight": 1.0 - assignment.mirror}]
    if assignment.mirror:
        opponents.append({"kind": "mirror", "weight": assignment.mirror})
    values |= {
        "name": f"{config.name}.{assignment.learner}",
        "seed": derive_seed(config.seed, "learner", assignment.learner) % 2**32,
        "policy": policy,
        "league": {**values.get("league", {}), "opponents": opponents, "snapshot_every": 10**15},
        "evaluate": dict(_NOT_MEASURED),
        "telemetry": {**values.get("telemetry", {}), "tensorboard": False, "wandb": False},
    }
    return resolve(_validated(values))


def agent_config(config: RunConfig, agent: str, *, has_start: bool) -> RunConfig:
    """The config of an agent's learners apart from whom they answer, resolved; with its `policy.start` or without.

    Raises:
        ConfigError: it is no config of a run.
    """
    values = _values_of(config, agent)
    policy = values.get("policy", {})
    values["policy"] = {**policy, "start": policy.get("start") if has_start else None}
    values["league"] = {**values.get("league", {}), "opponents": [{"kind": "mirror"}]}
    values["evaluate"] = dict(_NOT_MEASURED)
    return resolve(_validated(values))


def _values_of(config: RunConfig, agent: str) -> dict[str, Any]:
    """What was written, for one agent, without what only the population needs."""
    values = plain_values(config)
    values.pop("population", None)
    kind = _kinds(config).get(agent)
    return dict(join(values, kind.changes)) if kind is not None else values


def _kinds(config: RunConfig) -> Any:
    return {} if config.population is None else config.population.learners


def _validated(values: dict[str, Any]) -> RunConfig:
    config, mistakes = validate(values, {}, "config")
    if config is None or mistakes:
        raise ConfigError(*report(mistakes))
    return config


log = logging.getLogger(__name__)


class LearnerGroup:
    """The runs that are live now. Any thread may ask for their status."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls
        self.launcher: Launcher | None = None
        """The population's own."""
        self._live: dict[str, SingleRun] = {}
        self._done: dict[str, RoomReading] = {}

    @property
    def names(self) -> list[str]:
        """Who learns now."""
        return list(self._live)

    def statuses(self) -> list[Status]:
        """Of those who learn now."""
        return [run.status() for run in list(self._live.values())]

    def workers(self) -> tuple[WorkerReading, ...]:
        """Of those who learn now, each named after its learner."""
        found = [(agent, run.status().workers) for agent, run in list(self._live.items())]
        return tuple(replace(each, name=f"{agent}/{each.name}") for agent, workers in found for each in workers)

    def room_readings(self, own: Mapping[str, RoomReading]) -> dict[str, RoomReading]:
        """What each room has done since this start: `own`, and that of all learners."""
        return added_up([self._done, dict(own), *(run.room_readings() for run in list(self._live.values()))])

    def checkpoint(self, timeout_s: float) -> None:
        """Save the state of everybody who learns."""
        for run in list(self._live.values()):
            run.checkpoint(timeout_s)

    def pass_on(self) -> None:
        """Ask of everybody who learns what was asked of the population."""
        for run in list(self._live.values()):
            self._controls.pass_on(run)

    def run(self, learners: Mapping[str, SingleRun]) -> None:
        """Run learners to the end of their parts, all at once; the first failure ends the others."""
        self._live = dict(learners)
        try:
            for run in learners.values():
                run.whole = self.launcher
                run.start()
                self._controls.pass_on(run)
            for run in learners.values():
                run.wait()
        finally:
            self._end()

    def _end(self) -> None:
        """Nobody learns on: after a failure the others stop, too, and leave a state to resume from."""
        for run in self._live.values():
            run.stop()
        for name, run in self._live.items():
            try:
                run.wait()
            except Exception as error:
                log.warning("learner %s failed: %s", name, error)
        self._done = self.room_readings({})
        self._live = {}


@dataclass(frozen=True, slots=True)
class LearnerNews:
    """A sink that passes a learner's metrics on under its agent's name, counted in steps of all learners."""

    telemetry: Telemetry
    agent: str
    steps_before: int

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Take one metric line."""
        renamed = {f"learner/{self.agent}/{name}": value for name, value in values.items()}
        self.telemetry.metrics(self.steps_before + step, renamed)

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Events stay with the learner's run, but for those that somebody should act on."""
        if kind in ("worker_lost", "worker_silent", "worker_back", "episode_failed", "policy_damaged", "learnt_enough"):
            self.telemetry.event(kind, agent=self.agent, **fields)

    def close(self) -> None:
        """The population's telemetry stays open."""
