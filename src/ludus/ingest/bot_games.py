"""Expert rows from fixed players: they play the run's games, and what they do becomes rows to imitate.

Invariant: the rows depend on the config alone, in content and in order. Games of words become tokens as they would in a
rollout; on boards a decision is what the seat saw, what was legal and what the player chose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from ludus.buffer import as_expert_rows
from ludus.config import GameChoice, RunConfig
from ludus.config.sections.buffer import BotGamesConfig
from ludus.errors import ConfigError, RolloutError, rollout_error
from ludus.explore.players.fixed import Player, make_player
from ludus.explore.runners.assembly import assemble
from ludus.explore.runners.slot import Slot
from ludus.games import make_game
from ludus.lm.chat import ChatFormat
from ludus.lm.model_text import ModelText
from ludus.records import (
    Episode,
    EpisodeBatch,
    Experiences,
    PolicyName,
    PolicyRef,
    Seat,
    Task,
    TaskId,
    derive_seed,
    episode_id,
)
from ludus.runtime import Pulse
from ludus.tasks import GameTasks

GAMES_PER_PART = 256
GAMES_IN_FLIGHT = 64


def bot_tasks(
    games: Sequence[GameChoice],
    players: Sequence[str],
    seed: int,
    seats_of: Callable[[str], int],
    first: int,
    count: int,
) -> list[Task]:
    """Tasks `[first, first + count)`, with players drawn for each seat."""

    def seats(task: TaskId, key: str) -> tuple[Seat, ...]:
        drawn = [derive_seed(seed, "player", task, seat) % len(players) for seat in range(seats_of(key))]
        return tuple(Seat(policy=PolicyRef(name=PolicyName(players[place])), learns=True) for place in drawn)

    return GameTasks(games, seed).training(first, count, seats)


class BotGames:
    """Games of fixed players."""

    def __init__(self, config: BotGamesConfig, run: RunConfig, text: ModelText | None, pulse: Pulse) -> None:
        """`text` is how the run's language model speaks; None when it plays boards."""
        if not run.games:
            raise ConfigError("bots play the run's games, but it has none; leave this source out")
        self._config = config
        self._run = run
        self._text = text
        self._pulse = pulse
        self.failed = 0
        """Games that could not be played to their end."""
        self.too_long = 0
        """Rows that do not fit the model's context."""

    def rows(self, origin: str, first: int) -> Iterator[Experiences]:
        """The rows of all seats that got enough, in the order of the games, numbered from `first` on.

        Raises:
            ConfigError: there is no such player.
            RolloutError: no game could be played.
        """
        error = ""
        players = self._config.players
        seed = derive_seed(self._run.seed, "expert", *players)
        with closing(self._open_tables()) as tables:
            for start in range(0, self._config.games, GAMES_PER_PART):
                count = min(GAMES_PER_PART, self._config.games - start)
                batch = tables.play(bot_tasks(self._run.games, players, seed, tables.seats, start, count))
                errors = [episode.error for episode in batch.episodes if episode.error]
                self.failed += len(errors)
                error = errors[0] if errors else error
                rows = self._wanted(batch.experiences)
                if len(rows):
                    yield as_expert_rows(rows, origin=origin, first=first)
                    first += len(rows)
        if self.failed == self._config.games:
            raise RolloutError(f"none of the {self.failed} games of {', '.join(players)} ended: {error}")

    def _open_tables(self) -> TextTables | BoardTables:
        name, players = f"{self._run.name}/expert", self._config.players
        if self._text is None:
            return BoardTables(name, self._run, players, self._pulse)
        return TextTables(name, self._run, players, self._text.chat, self._pulse)

    def _wanted(self, rows: Experiences) -> Experiences:
        if not len(rows):
            return rows
        columns = rows.sequences
        order = np.lexsort((rows.places, columns["task"]))
        if self._config.min_reward is not None:
            order = order[columns["final_reward"][order] >= self._config.min_reward]
        if self._text is not None:
            fits = rows.lengths[order] <= self._text.context
            self.too_long += int((~fits).sum())
            order = order[fits]
        return rows.take(order)


class TextTables:
    """Text games, as a language model would hear and say them."""

    def __init__(self, name: str, run: RunConfig, players: Sequence[str], chat: ChatFormat, pulse: Pulse) -> None:
        """`name` begins the names of the episodes."""
        from ludus.explore.players.fixed import make_text_player
        from ludus.explore.runners.text_building import build_bot_runner
        from ludus.games.registry import make_text_game

        self._games = {choice.key: make_text_game(choice.key) for choice in run.games}
        for game in self._games.values():
            for player in players:
                make_text_player(player, game)
        self._runner = build_bot_runner(name, run, chat, pulse, slots=GAMES_IN_FLIGHT)

    def seats(self, key: str) -> int:
        """Players of a game."""
        return self._games[key].spec.players

    def play(self, tasks: list[Task], report: Callable[[int], None] = lambda finished: None) -> EpisodeBatch:
        """Many games at once, to their ends; one that fails is a failed episode."""
        self._runner.submit(tasks)
        while not self._runner.is_idle:
            self._runner.step()
            report(self._runner.finished_episodes)
        return self._runner.harvest()

    def close(self) -> None:
        """Give back what the runner holds."""
        self._runner.close()


class BoardTables:
    """Games on boards, one after the other."""

    def __init__(self, name: str, run: RunConfig, players: Sequence[str], pulse: Pulse) -> None:
        self._name = name
        self._run = run
        self._pulse = pulse
        self._games = {choice.key: make_game(choice.key) for choice in run.games}
        self._players = {(each, key): make_player(each, game) for key, game in self._games.items() for each in players}

    def seats(self, key: str) -> int:
        """Players of a game."""
        return self._games[key].spec.players

    def play(self, tasks: list[Task]) -> EpisodeBatch:
        """One game after the other."""
        return assemble([self._play(task) for task in tasks])

    def close(self) -> None:
        """Nothing is held."""

    def _play(self, task: Task) -> tuple[Slot | None, Episode]:
        """One game; what goes wrong in it costs it alone."""
        id = episode_id(self._name, task.id, task.attempt)
        self._pulse.working_on(task.id)
        try:
            seated = tuple(self._players[str(seat.policy.name), task.game] for seat in task.seats)
            slot = Slot(task, self._games[task.game], seated)
            longest = self._run.explore.max_length
            while slot.acting and (longest is None or slot.ply < longest):
                for seat in slot.acting:
                    _decide(slot, seat, seated[seat])
                slot.play()
                self._pulse.tick()
            return slot, slot.finish(id, truncated=bool(slot.acting))
        except Exception as error:  # whatever a game or a player may raise
            return None, Episode.failed(id, task, str(rollout_error(RolloutError, task.game, error)))


def _decide(slot: Slot, seat: int, player: Player) -> None:
    """Let a player choose, and note what it saw and did."""
    spec = slot.game.spec
    if spec.rewards_every_move:
        slot.collect(seat)
    seen: Any = np.zeros(spec.observation_shape, np.float32)
    slot.position.observe(seat, seen)
    legal = np.zeros(spec.actions, np.bool_)
    legal[slot.position.legal(seat)] = True
    action = int(player.choose(slot.position, seat, slot.generator(seat)))
    slot.traces[seat].decisions.append((seen, legal, action, 0.0, 0.0))
    slot.moves[seat] = action
