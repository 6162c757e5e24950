"""The tasksets of a run, seen as games: a key, a spec, and the tasks that are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ludus.config.run import RunConfig
from ludus.errors import ConfigError
from ludus.games.protocol import GameSpec
from ludus.tasks import GameTasks, Taskset, TasksetTasks, load_taskset


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksetGame:
    """A taskset in the place of a game: one seat, rewarded at the end."""

    taskset: Taskset
    is_held_out: bool

    @property
    def spec(self) -> GameSpec:
        """What the rest of the loop needs to know about it."""
        return GameSpec(
            key=self.taskset.game,
            players=1,
            actions=0,
            observation_shape=(),
            max_length=1,
            is_zero_sum=False,
            has_chance=True,
            min_return=float("-inf"),
            max_return=float("inf"),
        )


def find_tasksets(config: RunConfig, problems: list[str]) -> dict[str, TasksetGame]:
    """Read every taskset of a config, those that are held out too; what is wrong with them is noted."""
    found: dict[str, TasksetGame] = {}
    for is_held_out, sets in ((False, config.tasks), (True, config.evaluate.tasks)):
        for each in sets:
            try:
                taskset = load_taskset(each)
                found[taskset.game] = TasksetGame(taskset=taskset, is_held_out=is_held_out)
            except ConfigError as error:
                problems += error.problems
    return found


def make_tasks(config: RunConfig, games: Mapping[str, object]) -> GameTasks | TasksetTasks:
    """What makes the run's tasks: from its games, or from its tasksets."""
    sets = [game for game in games.values() if isinstance(game, TasksetGame)]
    if not sets:
        return GameTasks(config.games, config.seed, config.explore.group)
    return TasksetTasks(
        [each.taskset for each in sets if not each.is_held_out],
        config.seed,
        config.explore.group,
        held_out=[each.taskset for each in sets if each.is_held_out],
    )
