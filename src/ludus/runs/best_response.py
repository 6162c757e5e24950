"""A best response to one frozen version, by training: its return bounds the version's exploitability from below.

Invariant: it is an ordinary run in `learners/<name>/` below the run that is measured, so it can be stopped, killed and
resumed; nothing else of that run is written to.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ludus.config import parse_config
from ludus.errors import ConfigError
from ludus.games.protocol import GameSpec
from ludus.league.matchmaking.population import LineUps
from ludus.league.schedulers import Assignment
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyRef
from ludus.runs.population.learner_runs import LearnerRuns
from ludus.runs.single import SingleRun
from ludus.storage.lock import RunLock
from ludus.storage.run_directory import RunDirectory


def open_best_response(
    run: RunDirectory,
    target: PolicyRef,
    spec: GameSpec,
    *,
    steps: int,
    seed: int,
    from_target: bool,
    plugins: Sequence[str] = (),
) -> SingleRun:
    """The run that trains a best response to a version, new or to be resumed; it ends when it has done `steps`.

    Args:
        spec: The game, one of those that the measured run plays.
        from_target: Whether it begins with the target's own weights, which finds weaknesses sooner.

    Raises:
        ConfigError: a best response would not bound the exploitability of this policy, or cannot be trained.
    """
    _check(run, target, spec)
    game = json.dumps([{"key": spec.key}])
    changes = ["mode=both", f"games={game}", f"seed={seed}", "policy.start=null", "cycle=null", "population=null"]
    length = [f"train.steps={steps}", "train.updates=null", "train.hours=null", "train.stop={}"]
    config = parse_config(run.read_config(), str(run.config), [*changes, *length], stored=True)
    begins = "target" if from_target else "random"
    assignment = Assignment(
        agent=config.policy.name,
        learner=f"best_response-{target.name}-{target.version}-{begins}-{seed}",
        generation=1,
        opponents=LineUps.of_others([(target, 1.0)]),
        until=steps,
        begins_with=target if from_target else None,
    )
    return LearnerRuns(config=config, run=run, plugins=plugins, strict_resume=False).open(assignment, ())


def _check(run: RunDirectory, target: PolicyRef, spec: GameSpec) -> None:
    if not spec.is_zero_sum or spec.is_cooperative:
        raise ConfigError(
            f"{spec.key} is not zero-sum: the return of a best response does not bound exploitability there"
        )
    shape = PolicyStore(run.policies).shape(target)
    if not isinstance(shape, PolicyShape):
        raise ConfigError(f"{target} is no network ({type(shape).__name__}); best responses are trained to networks")
    config = parse_config(run.read_config(), str(run.config), stored=True)
    if config.population is not None and RunLock.holder(run.path) is not None:
        raise ConfigError(f"{run.path} is live, and a live population removes runs below it; wait for its end")
