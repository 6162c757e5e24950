"""What the advantages `remax` and `distill` need from other keys: groups with a greedy attempt, and a teacher.

To add a check: a `yield` in the function it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator

from ludus.config.problems import Contradiction, Path
from ludus.config.run import RunConfig
from ludus.config.sections.train_presets import needs_greedy, needs_teacher

_KIND: Path = ("train", "algorithm", "advantage", "kind")
_TEACHER: Path = ("policy", "teacher")


def baseline_contradictions(config: RunConfig) -> Iterator[Contradiction]:
    """Everything about greedy attempts and teachers that cannot hold together."""
    if config.policy.model is not None and needs_greedy(config.train.algorithm):
        yield from _groups(config)
    yield from _teacher(config)


def _groups(config: RunConfig) -> Iterator[Contradiction]:
    group, batch = config.explore.group, config.train.batch_episodes or 1
    if group < 2:
        text = "is remax, whose groups are sampled attempts and a greedy one; write explore.group: 2 or more"
        yield Contradiction(path=_KIND, text=text)
    elif batch % group and not config.tasks:  # of tasks it is said already
        text = f"{batch} episodes are no whole number of groups (explore.group: {group})"
        fitting = max(round(batch / group), 1) * group
        yield Contradiction(path=("train", "batch_episodes"), text=f"{text}; write {fitting}")


def _teacher(config: RunConfig) -> Iterator[Contradiction]:
    teacher, algorithm = config.policy.teacher, config.train.algorithm
    if teacher is None:
        if needs_teacher(algorithm) and config.policy.model is not None:
            text = "is distill, but policy.teacher is not given; write policy: {teacher: {path: ...}}"
            yield Contradiction(path=_KIND, text=text)
        return
    if not needs_teacher(algorithm):
        kind = algorithm.advantage.kind if algorithm.advantage else "none"
        text = f"has no effect: train.algorithm.advantage.kind is {kind}; write distill there, or leave it out"
        yield Contradiction(path=_TEACHER, text=text)
    if (teacher.path is None) == (teacher.run is None):
        text = "policy.teacher.path is a model and policy.teacher.run another run's policy; write one of the two"
        yield Contradiction(path=_TEACHER, text=text)
