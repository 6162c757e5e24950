"""Games between members of a run: who can play, and the games, played in this process.

Invariant: a member that was found can play the game of the match; one that cannot is an error that names those who can.
The games depend on the members, the seed and the number of games alone. Nothing is written unless it is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ludus.cli.arguments import choose_game, games_of
from ludus.config import RunConfig, nearest_word
from ludus.errors import ConfigError, RolloutError
from ludus.explore.messages import Setup
from ludus.explore.players.fixed import BUILT_IN, PLAYERS, UCI, Player, TextPlayer, make_player, make_text_player
from ludus.explore.runners.host_runner import HostRunner
from ludus.explore.runners.search_decisions import SearchDecisions
from ludus.games import make_game
from ludus.games.protocol import GameSpec
from ludus.games.registry import make_text_game
from ludus.league.matchmaking.matchmaker import evaluation_seats
from ludus.league.matchmaking.recorded import RecordedGame
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyStore, TabularShape
from ludus.records import Episode, PolicyName, PolicyRef, Task, TaskId, derive_seed
from ludus.runtime import Pulse
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from ludus.explore.runners.language_runner import LanguageRunner
    from ludus.explore.runners.mixed_runner import MixedRunner

Advance = Callable[[Sequence[Episode]], None]
LATEST = "latest"
MOST_NAMED = 12
"""Versions that an error names; of more, the first and the last."""
VERSIONS_IN_FLIGHT = 64
"""Games at once where networks decide for many of them together."""
PLAYERS_IN_FLIGHT = 8
"""Games at once where somebody thinks about one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One player of a match."""

    ref: PolicyRef
    is_version: bool
    """Whether it has weights; else it is a fixed player or an endpoint."""

    @property
    def label(self) -> str:
        """Name for people."""
        return str(self.ref) if self.is_version else str(self.ref.name)


class Table:
    """The game of a match, and everybody who can be asked to it."""

    def __init__(self, run: RunDirectory, config: RunConfig, game: str | None) -> None:
        """`game` is a key of the run's games, also of those it is only measured on; None for the first."""
        keys = games_of(config)
        none = "attempts tasks and plays no games; there is nobody to play against"
        self.key = choose_game(run.path, keys, game, none=none)
        self.run, self.config = run, config
        self.store = PolicyStore(run.policies)
        self.in_words = config.policy.model is not None
        self.game: Any = make_text_game(self.key) if self.in_words else make_game(self.key)
        self.spec: GameSpec = self.game.spec
        if self.spec.players < 2:
            raise ConfigError(f"{self.key} has one seat; a match needs a game of two or more")

    def find(self, text: str) -> Side:
        """The member that a person means by `main@12`, `12`, `main`, `latest`, `random` or `mcts-25`.

        Raises:
            ConfigError: there is no such member, or it cannot play this game.
        """
        name, _, version = text.rpartition("@") if "@" in text else ("", "", text)
        if version == LATEST or (version.isascii() and version.isdigit() and len(version) < 10):
            return self._version(text, name or self.config.policy.name, version)
        if text in self.store.names():
            return self._version(text, text, LATEST)
        if text in self.config.explore.endpoints:
            return Side(ref=PolicyRef(name=PolicyName(text)), is_version=False)
        return self._fixed(text)

    def is_table(self, side: Side) -> bool:
        """Whether a side is a table of probabilities, which PSRO has computed."""
        return side.is_version and isinstance(self.store.shape(side.ref), TabularShape)

    def speaks(self, side: Side) -> bool:
        """Whether a side is a language model."""
        return side.is_version and isinstance(self.store.shape(side.ref), LanguageModelShape)

    def _version(self, text: str, name: str, version: str) -> Side:
        versions = self.store.versions(name)
        if not versions:
            raise self._unknown(text)
        wanted = versions[-1].version if version == LATEST else int(version)
        for ref in versions:
            if ref.version == wanted:
                return Side(ref=ref, is_version=True)
        nearest = min(versions, key=lambda ref: abs(ref.version - wanted))
        raise self._unknown(text, nearest=str(nearest))

    def _fixed(self, text: str) -> Side:
        try:
            (make_text_player if self.in_words else make_player)(text, self.game)
        except ConfigError:
            # A player that exists has its own reasons; somebody unknown may be a version that is misspelled.
            if text.partition("-")[0] in BUILT_IN or text in PLAYERS or text.startswith(UCI):
                raise
            raise self._unknown(text) from None
        return Side(ref=PolicyRef(name=PolicyName(text)), is_version=False)

    def _unknown(self, text: str, nearest: str | None = None) -> ConfigError:
        versions = [str(ref) for name in self.store.names() for ref in self.store.versions(name)]
        others = [*BUILT_IN, *self.config.explore.endpoints, LATEST]
        near = nearest or nearest_word(text, [*versions, *others])
        hint = f"; did you mean {near}?" if near else "."
        named = versions if len(versions) <= MOST_NAMED else [*versions[:3], "...", *versions[-3:]]
        here = f"It has published {', '.join(named)}" if versions else "It has published no policy yet"
        fixed = "random, first, mcts-25, minimax-3, solver, uci:stockfish?nodes=100" + "".join(
            f", {name}" for name in self.config.explore.endpoints
        )
        return ConfigError(f"{text!r} is no member of {self.run.path}{hint} {here}. Fixed players are such as {fixed}")


def play_match(
    table: Table, sides: tuple[Side, Side], *, games: int, seed: int, greedy: bool, advance: Advance, nodes: int = 1
) -> list[Episode]:
    """Play all games, in order; the first side begins in seat 0, then in seat 1, and so on; raises as `play_tasks`."""
    tasks = make_tasks(table, sides, games=games, seed=seed, greedy=greedy, nodes=nodes)
    return play_tasks(table, sides, tasks, advance)


def play_tasks(table: Table, sides: Sequence[Side], tasks: list[Task], advance: Advance) -> list[Episode]:
    """Play games between any of these sides, in the order of their tasks.

    Args:
        advance: is told which games are over, as they end.

    Raises:
        RolloutError: no game could be played to its end.
    """
    if not all(side.is_version for side in sides):
        slots = PLAYERS_IN_FLIGHT
    else:
        slots = table.config.explore.games_in_flight if table.in_words else VERSIONS_IN_FLIGHT
    if table.in_words:
        with closing(_text_runner(table, sides, slots)) as runner:
            episodes = _play(runner, tasks, advance)
    elif any(table.speaks(side) for side in sides):
        with closing(_mixed_runner(table, sides, slots)) as mixed:
            episodes = _play(mixed, tasks, advance)
    else:
        episodes = _play(_board_runner(table, sides, slots), tasks, advance)
    if all(episode.error for episode in episodes):
        raise RolloutError(f"none of the {len(tasks)} games could be played: {episodes[0].error}")
    return episodes


def evaluates_greedily(table: Table, sides: tuple[Side, Side]) -> bool:
    """Whether the run's evaluation games between two members have the likeliest moves; versions of a policy sample."""
    greedy = table.config.evaluate.greedy
    return (not table.spec.must_mix if greedy is None else greedy) and sides[0].ref.name != sides[1].ref.name


def make_tasks(
    table: Table,
    sides: tuple[Side, Side],
    *,
    games: int,
    seed: int,
    greedy: bool,
    begin: int = 0,
    first_id: int = 0,
    nodes: int = 1,
) -> list[Task]:
    """The games of a match as tasks, from game number `begin` on; versions search with `nodes`."""
    first, second = (_seated(table, side) for side in sides)
    of_sides = nodes if sides[0].is_version else 1, nodes if sides[1].is_version else 1
    return [
        Task(
            id=TaskId(first_id + number - begin),
            purpose="evaluate",
            game=table.key,
            seed=derive_seed(seed, "match", number),
            seats=evaluation_seats(table.spec, first, second, number, greedy=greedy, nodes=of_sides),
            inputs={"first": _places(table, number)},
        )
        for number in range(begin, begin + games)
    ]


def recorded_game(episode: Episode, first: str, second: str) -> RecordedGame:
    """A game that was played to its end, as the record has it; `first` and `second` are the names of the sides."""
    task = episode.task
    seats = tuple(first if seat in task.inputs["first"] else second for seat in range(len(episode.returns)))
    greedy = any(seat.greedy for seat in task.seats)
    return RecordedGame(game=task.game, seats=seats, returns=episode.returns, seed=task.seed, greedy=greedy)


def _places(table: Table, number: int) -> list[int]:
    teams = table.spec.teams or tuple(range(table.spec.players))
    return [seat for seat, team in enumerate(teams) if team == teams[number % table.spec.players]]


def _seated(table: Table, side: Side) -> PolicyRef:
    """How a side is written on a seat: a table of probabilities sits there as a fixed player."""
    return PolicyRef(name=PolicyName(side.label)) if table.is_table(side) else side.ref


def _play(runner: HostRunner | LanguageRunner | MixedRunner, tasks: list[Task], advance: Advance) -> list[Episode]:
    runner.submit(tasks)
    episodes: list[Episode] = []
    while not runner.is_idle or runner.finished_episodes:
        if not runner.is_idle:
            runner.step()
        ended = runner.harvest().episodes
        episodes += ended
        advance(ended)
    return sorted(episodes, key=lambda episode: episode.task.id)


def _board_runner(table: Table, sides: Sequence[Side], slots: int) -> HostRunner:
    from ludus.explore.actors import NetworkActors

    players, pulse = _players(table, sides), Pulse()
    return HostRunner(
        run=f"{table.config.name}/match",
        games=lambda _: table.game,
        actors=NetworkActors(table.store),
        players=lambda name, _: players[name],
        slots=slots,
        max_length=table.config.explore.max_length,
        pulse=pulse,
        searches=SearchDecisions(table.store, table.config, pulse),
    )


def _players(table: Table, sides: Sequence[Side]) -> dict[str, Player | None]:
    """By the name on a seat; None where a network decides."""
    from ludus.cli.tables import TabularPlayer

    found: dict[str, Player | None] = {}
    for side in sides:
        name = str(_seated(table, side).name)
        if not side.is_version:
            found[name] = make_player(name, table.game)
        elif table.is_table(side):
            found[name] = TabularPlayer(table.store, side.ref)
        else:
            found[name] = None
    return found


def _mixed_runner(table: Table, sides: Sequence[Side], slots: int) -> MixedRunner:
    """Where a population has networks and language models."""
    from ludus.explore.runners.mixed_runner import MixedRunner, build_population_runner

    setup = Setup(
        run=f"{table.config.name}/match",
        config=table.config.model_dump_json(),
        shape=table.store.shape(next(side.ref for side in sides if table.speaks(side))).to_json(),
        slots=slots,
        lm_config=table.run.lm_config.read_text() if table.run.lm_config.is_file() else "",
    )
    runner = build_population_runner(setup, table.config, Pulse(), table.store)
    if not isinstance(runner, MixedRunner):
        raise ConfigError(f"{table.run.path} has language models, but does not say how they speak (lm_config.json)")
    return runner


def _text_runner(table: Table, sides: Sequence[Side], slots: int) -> LanguageRunner:
    versions = [side.ref for side in sides if side.is_version] or table.store.versions(table.config.policy.name)[-1:]
    if not versions:
        raise ConfigError(f"{table.run.path} has published no policy yet")
    return language_runner(table.run, table.config, versions[0], name=f"{table.config.name}/match", slots=slots)


def language_runner(
    run: RunDirectory,
    config: RunConfig,
    ref: PolicyRef,
    *,
    name: str,
    slots: int,
    guests: Mapping[str, TextPlayer] | None = None,
) -> LanguageRunner:
    """What plays a run's games of words here, for as long as they take; `guests` are further fixed players."""
    from ludus.explore.runners.text_building import build_language_runner

    store = PolicyStore(run.policies)
    shape = store.shape(ref)
    if isinstance(shape, LanguageModelShape):
        shape = shape.standing_on(run.base)
    setup = Setup(run=name, config=config.model_dump_json(), shape=shape.to_json(), slots=slots)
    return build_language_runner(
        setup, config, Pulse(), store, extra_players=guests, deadline_s=math.inf, is_patient=False
    )
