"""The tasksets of a run, seen as games: a key, a spec, and the tasks that are made from them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ludus.config import RunConfig, needs_greedy
from ludus.errors import ConfigError
from ludus.games.protocol import GameSpec
from ludus.tasks import GameTasks, Taskset, TasksetTasks, load_taskset

log = logging.getLogger(__name__)


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
    for line in overlaps(found.values()):
        log.warning("%s", line)
    return found


def overlaps(games: Iterable[TasksetGame]) -> list[str]:
    """Held-out sets of which something is trained on, one line each."""
    every = list(games)
    trained = {_prompt(row) for game in every if not game.is_held_out for row in game.taskset.rows}
    lines = []
    for held_out in (game.taskset for game in every if game.is_held_out):
        if shared := sum(_prompt(row) in trained for row in held_out.rows):
            many = f"{shared:,} of the {len(held_out):,} tasks of evaluate.tasks {held_out.name}"
            lines.append(f"{many} are trained on, too: what is measured there is no held-out success")
    return lines


def _prompt(row: Mapping[str, object]) -> str:
    return " ".join(str(row["prompt"]).split())


def make_tasks(config: RunConfig, games: Mapping[str, object]) -> GameTasks | TasksetTasks:
    """What makes the run's tasks: from its games, or from its tasksets."""
    sets = [game for game in games.values() if isinstance(game, TasksetGame)]
    greedy = needs_greedy(config.train.algorithm)
    if not sets:
        return GameTasks(config.games, config.seed, config.explore.group, greedy=greedy)
    return TasksetTasks(
        [each.taskset for each in sets if not each.is_held_out],
        config.seed,
        config.explore.group,
        held_out=[each.taskset for each in sets if each.is_held_out],
        greedy=greedy,
    )
