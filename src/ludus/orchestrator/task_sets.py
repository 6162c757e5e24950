"""What a run plays and attempts: its games and its tasksets, and the stream of tasks that is made from them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ludus.config import RunConfig, TasksetConfig, needs_greedy
from ludus.errors import ConfigError
from ludus.games.protocol import Game, GameSpec, TextGame
from ludus.records import derive_seed
from ludus.tasks import GameTasks, MixedTasks, Taskset, TasksetTasks, TaskStream, load_taskset

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Playables:
    """Everything that episodes of a run can be of."""

    games: Mapping[str, Game | TextGame] = field(default_factory=dict)
    """By key: boards for networks, games of words for language models."""
    tasksets: Sequence[Taskset] = ()
    held_out: Sequence[Taskset] = ()
    """For evaluation only."""

    @property
    def game_specs(self) -> dict[str, GameSpec]:
        """What is known of the games, by key."""
        return {key: game.spec for key, game in self.games.items()}

    @property
    def specs(self) -> dict[str, GameSpec]:
        """What an episode can be checked against, by what its task has as game."""
        return self.game_specs | {taskset.game: attempt_spec(taskset) for taskset in (*self.tasksets, *self.held_out)}


def attempt_spec(taskset: Taskset) -> GameSpec:
    """What an attempt at a taskset's row looks like to the loop: one seat, rewarded at the end."""
    return GameSpec(
        key=taskset.game,
        players=1,
        actions=0,
        observation_shape=(),
        max_length=1,
        is_zero_sum=False,
        has_chance=True,
        min_return=float("-inf"),
        max_return=float("inf"),
    )


def load_tasksets(configs: Sequence[TasksetConfig], problems: list[str]) -> list[Taskset]:
    """Read tasksets; what is wrong with them is noted."""
    found: list[Taskset] = []
    for config in configs:
        try:
            found.append(load_taskset(config))
        except ConfigError as error:
            problems += error.problems
    return found


def warn_of_overlaps(playables: Playables) -> None:
    """Tell of held-out sets of which something is trained on."""
    for line in overlaps(playables):
        log.warning("%s", line)


def overlaps(playables: Playables) -> list[str]:
    """Held-out sets of which something is trained on, one line each."""
    trained = {_prompt(row) for taskset in playables.tasksets for row in taskset.rows}
    lines = []
    for held_out in playables.held_out:
        if shared := sum(_prompt(row) in trained for row in held_out.rows):
            many = f"{shared:,} of the {len(held_out):,} tasks of evaluate.tasks {held_out.name}"
            lines.append(f"{many} are trained on, too: what is measured there is no held-out success")
    return lines


def _prompt(row: Mapping[str, object]) -> str:
    return " ".join(str(row["prompt"]).split())


def make_tasks(config: RunConfig, playables: Playables) -> TaskStream:
    """What makes the run's tasks: from its games, from its tasksets, or from both by weight."""
    greedy, group, seed = needs_greedy(config.train.algorithm), config.explore.group, config.seed
    is_mixed = bool(config.games and config.tasks)
    streams: dict[str, tuple[TaskStream, float]] = {}
    if config.games:
        own = derive_seed(seed, "stream", "games") if is_mixed else seed
        weight = sum(game.weight for game in config.games)
        streams["games"] = GameTasks(config.games, own, group, greedy=greedy), weight
    if config.tasks:
        own = derive_seed(seed, "stream", "tasks") if is_mixed else seed
        weight = sum(taskset.weight for taskset in config.tasks)
        sets = TasksetTasks(playables.tasksets, own, group, held_out=playables.held_out, greedy=greedy)
        streams["tasks"] = sets, weight
    return MixedTasks(streams, seed, group) if is_mixed else next(iter(streams.values()))[0]
