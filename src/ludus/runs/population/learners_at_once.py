"""How many learners of a generation learn at the same time where nobody has said it: as many as fit.

Learners do not depend on each other, so that the number changes how long a generation takes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from ludus.config import RunConfig
from ludus.orchestrator.placement import learner_threads
from ludus.runtime import Launcher, available_cores


def learners_at_once(config: RunConfig, launcher: Launcher, *, matches: bool) -> int:
    """At least one; `matches`: whether explorers play matches between policies, which keep their places.

    On one machine learners in one process share its cores, and those that are several processes take turns.
    """
    cpus, explorers = launcher.node_cpus(), [1] * config.explore.workers
    if not cpus:
        return available_cores() if config.topology == "fused" else 1
    if config.topology == "fused":
        learner = [max(learner_threads(config, launcher), config.train.shards)]
    else:
        learner = [config.runtime.threads or 1, *explorers]
    return max(1, count_fitting(cpus, learner, taken=explorers if matches else []))


def count_fitting(cpus: Sequence[float], learner: Sequence[int], taken: Sequence[int] = ()) -> int:
    """How many learners, each with workers of these sizes, fit nodes with so many CPUs beside what is taken."""
    free = sorted(cpus)
    for size in taken:
        _place(free, size)
    fitting = 0
    while all(_place(free, size) for size in sorted(learner, reverse=True)):
        fitting += 1
    return fitting


def _place(free: list[float], size: int) -> bool:
    """Take the CPUs of a worker from the fullest node that has as many; returns whether one has."""
    for node, cpus in enumerate(free):
        if cpus >= size:
            free[node] = cpus - size
            free.sort()
            return True
    return False
