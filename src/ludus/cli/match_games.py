"""Play the games of a match in this process.

Invariant: the games depend on the members, the seed and the number of games alone. Nothing is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from ludus.cli.match_members import Side, Table
from ludus.errors import ConfigError, RolloutError
from ludus.explore.messages import Setup
from ludus.explore.players.fixed import Player, make_player
from ludus.explore.runners.host_runner import HostRunner
from ludus.games.protocol import Game
from ludus.league.matchmaking.matchmaker import evaluation_seats
from ludus.records import Episode, PolicyName, PolicyRef, Task, TaskId, derive_seed
from ludus.runtime import Pulse

if TYPE_CHECKING:
    from ludus.explore.runners.language_runner import LanguageRunner
    from ludus.explore.runners.mixed_runner import MixedRunner

VERSIONS_IN_FLIGHT = 64
"""Games at once where networks decide for many of them together."""
PLAYERS_IN_FLIGHT = 8
"""Games at once where somebody thinks about one after the other."""


def play_match(
    table: Table, sides: tuple[Side, Side], *, games: int, seed: int, greedy: bool, advance: Callable[[int], None]
) -> list[Episode]:
    """Play all games, in order; the first side begins in seat 0, then in seat 1, and so on.

    Args:
        advance: is told how many games are over.

    Raises:
        RolloutError: no game could be played to its end.
    """
    if not all(side.is_version for side in sides):
        slots = PLAYERS_IN_FLIGHT
    else:
        slots = table.config.explore.games_in_flight if table.words is not None else VERSIONS_IN_FLIGHT
    tasks = make_tasks(table, sides, games=games, seed=seed, greedy=greedy)
    if table.words is None and any(table.speaks(side) for side in sides):
        with closing(_mixed_runner(table, sides, slots)) as mixed:
            episodes = _play(mixed, tasks, advance)
    elif table.words is None:
        episodes = _play(_board_runner(table, sides, slots), tasks, advance)
    else:
        with closing(_text_runner(table, sides, slots)) as runner:
            episodes = _play(runner, tasks, advance)
    if all(episode.error for episode in episodes):
        raise RolloutError(f"none of the {games} games could be played: {episodes[0].error}")
    return episodes


def make_tasks(table: Table, sides: tuple[Side, Side], *, games: int, seed: int, greedy: bool) -> list[Task]:
    """The games of a match as tasks."""
    first, second = (_seated(table, side) for side in sides)
    return [
        Task(
            id=TaskId(number),
            purpose="evaluate",
            game=table.key,
            seed=derive_seed(seed, "match", number),
            seats=evaluation_seats(table.spec, first, second, number, greedy=greedy),
            inputs={"first": _places(table, number)},
        )
        for number in range(games)
    ]


def seats_of_first(episode: Episode) -> list[int]:
    """Where the first side of a match sat."""
    return [int(seat) for seat in episode.task.inputs["first"]]


def _places(table: Table, number: int) -> list[int]:
    teams = table.spec.teams or tuple(range(table.spec.players))
    return [seat for seat, team in enumerate(teams) if team == teams[number % table.spec.players]]


def _seated(table: Table, side: Side) -> PolicyRef:
    """How a side is written on a seat: a table of probabilities sits there as a fixed player."""
    if table.is_table(side):
        return PolicyRef(name=PolicyName(side.label))
    return side.ref


def _play(
    runner: HostRunner | LanguageRunner | MixedRunner, tasks: list[Task], advance: Callable[[int], None]
) -> list[Episode]:
    runner.submit(tasks)
    episodes: list[Episode] = []
    while not runner.is_idle or runner.finished_episodes:
        if not runner.is_idle:
            runner.step()
        episodes += runner.harvest().episodes
        advance(len(episodes))
    return sorted(episodes, key=lambda episode: episode.task.id)


def _board_runner(table: Table, sides: tuple[Side, Side], slots: int) -> HostRunner:
    from ludus.explore.actors import NetworkActors

    players = _players(table, sides)
    return HostRunner(
        run=f"{table.config.name}/match",
        games=lambda _: _board(table),
        actors=NetworkActors(table.store),
        players=lambda name, _: players[name],
        slots=slots,
        max_length=table.config.explore.max_length,
    )


def _players(table: Table, sides: tuple[Side, Side]) -> dict[str, Player | None]:
    """By the name on a seat; None where a network decides."""
    from ludus.cli.tabular_table import TabularPlayer

    found: dict[str, Player | None] = {}
    for side in sides:
        name = str(_seated(table, side).name)
        if not side.is_version:
            found[name] = make_player(name, _board(table))
        elif table.is_table(side):
            found[name] = TabularPlayer(table.store, side.ref)
        else:
            found[name] = None
    return found


def _mixed_runner(table: Table, sides: tuple[Side, Side], slots: int) -> MixedRunner:
    """Where a population has networks and language models."""
    from ludus.explore.runners.mixed_building import build_population_runner
    from ludus.explore.runners.mixed_runner import MixedRunner

    setup = Setup(
        run_dir=str(table.run.path),
        run=f"{table.config.name}/match",
        config=table.config.model_dump_json(),
        shape=table.store.shape(next(side.ref for side in sides if table.speaks(side))).to_json(),
        slots=slots,
        lm_config=table.run.lm_config.read_text() if table.run.lm_config.is_file() else "",
    )
    runner = build_population_runner(setup, table.config, Pulse())
    if not isinstance(runner, MixedRunner):
        raise ConfigError(f"{table.run.path} has language models, but does not say how they speak (lm_config.json)")
    return runner


def _text_runner(table: Table, sides: tuple[Side, Side], slots: int) -> LanguageRunner:
    from ludus.explore.runners.text_building import build_language_runner
    from ludus.lm.language_shape import LanguageModelShape

    versions = [side.ref for side in sides if side.is_version] or table.store.versions(table.config.policy.name)[-1:]
    if not versions:
        raise ConfigError(f"{table.run.path} has published no policy yet")
    shape = table.store.shape(versions[0])
    if isinstance(shape, LanguageModelShape):
        shape = shape.standing_on(table.run.base)
    setup = Setup(
        run_dir=str(table.run.path),
        run=f"{table.config.name}/match",
        config=table.config.model_dump_json(),
        shape=shape.to_json(),
        slots=slots,
    )
    return build_language_runner(setup, table.config, Pulse(), deadline_s=math.inf, is_patient=False)


def _board(table: Table) -> Game:
    if table.board is None:
        raise ConfigError(f"{table.key} is a game of words")
    return table.board
