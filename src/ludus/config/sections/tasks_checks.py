"""What a run on tasks must have and cannot have. Each check names the other key and says what to write instead."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.config.problems import Contradiction, Path
from ludus.config.rules import at
from ludus.config.run import RunConfig


def check_tasks(config: RunConfig) -> Iterator[Contradiction]:
    """Everything about games and tasks that cannot hold together."""
    if not config.games and not config.tasks:
        yield at(("games",), "there is nothing to do; write games: [pgx:connect_four], or tasks: [data/train.jsonl]")
    if not config.tasks:
        yield from _only_with_tasks(config)
        return
    if config.policy.model is None:
        yield at(("policy", "model"), "tasks are for language models; write policy: {model: {path: ...}}")
    if not config.rewards and not all(taskset.rewards for taskset in (*config.tasks, *config.evaluate.tasks)):
        yield at(("rewards",), "tasks need rewards; write rewards: [{kind: exact}]")
    if not config.games:
        yield from _no_opponents(config)
    yield from _groups(config)
    yield from _repeated_names(config)


def _only_with_tasks(config: RunConfig) -> Iterator[Contradiction]:
    if config.rewards:
        yield at(("rewards",), "a game gives its own rewards; leave them out, or write tasks instead of games")
    if config.evaluate.tasks:
        yield at(("evaluate", "tasks"), "are attempted in runs on tasks; write tasks, or leave them out")


def _no_opponents(config: RunConfig) -> Iterator[Contradiction]:
    for i, opponent in enumerate(config.league.opponents):
        if opponent.kind != "mirror":
            path: Path = ("league", "opponents", i, "kind")
            yield at(path, "a task has no opponents; write league: {opponents: [{kind: mirror}]}, or leave it out")
    if config.evaluate.against:
        yield at(("evaluate", "against"), "a task has no opponents; write evaluate: {tasks: [...]}")
    if config.warm_start is not None:
        yield at(("warm_start",), "is for games; learn from examples first with buffer.expert and the preset sft")


def _groups(config: RunConfig) -> Iterator[Contradiction]:
    group, batch = config.explore.group, config.train.batch_episodes or 1
    if batch % group:
        fitting = max(round(batch / group), 1) * group
        text = f"{batch} attempts are no whole number of groups (explore.group: {group}); write {fitting}"
        yield at(("train", "batch_episodes"), text)


def _repeated_names(config: RunConfig) -> Iterator[Contradiction]:
    seen: dict[str, str] = {}
    for where, sets in ((("tasks",), config.tasks), (("evaluate", "tasks"), config.evaluate.tasks)):
        for place, taskset in enumerate(sets):
            path: Path = (*where, place, "name")
            if taskset.name in seen:
                yield at(path, f"{taskset.name} is already the name of {seen[taskset.name]}; write another")
            seen.setdefault(taskset.name, ".".join(map(str, path[:-1])))
