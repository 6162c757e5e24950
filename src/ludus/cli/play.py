"""`ludus play`: sit down against a trained policy, on a board or in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ludus.cli.arguments import GameKey, GamePlugins, SearchNodes, check_search, choose_game, games_of, open_run
from ludus.errors import ConfigError, RolloutError
from ludus.games.answers import read_returns
from ludus.games.board_text import label_board
from ludus.plugins import load_plugins

if TYPE_CHECKING:
    import numpy as np

    from ludus.cli.tables import Table, TabularTable
    from ludus.config import RunConfig
    from ludus.games.protocol import Position, TextPosition
    from ludus.records import PolicyRef
    from ludus.storage.run_directory import RunDirectory

Move = TypeVar("Move", int, str)
PERSON = "you"
HELP = "type a move, ? for the legal moves, ?? for what the policy would play, q to leave"
WORDS_HELP = "type a move, ? for the legal moves, q to leave"


def play(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    policy: Annotated[
        str | None, typer.Option(help="Version to play against, such as main@12. Default: the newest.")
    ] = None,
    seat: Annotated[int, typer.Option(help="Your seat, counted from 0; seat 0 moves first.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of chance and of the policy's sampling.")] = 0,
    nodes: SearchNodes = 1,
    game: GameKey = None,
    plugin: GamePlugins = None,
    sample: Annotated[
        bool,
        typer.Option(help="Sample the policy's moves instead of taking the likeliest. Tabular policies always sample."),
    ] = False,
) -> None:
    """Play against a trained policy in the terminal.

    Example: ludus play runs/connect_four --seat 1
    """
    from ludus.policies.store import choose_policy

    load_plugins(plugin or [])
    directory, config = open_run(run)
    none = f"has no games; ludus inspect {run} shows its attempts at tasks"
    key = choose_game(run, games_of(config), game, none=none)
    ref = choose_policy(directory, config, policy)
    if config.policy.model is not None:
        check_search(None, nodes)
        talk(directory, config, key, ref, seat=seat, seed=seed, greedy=not sample)
        return
    from ludus.cli.tables import Table, TabularTable

    table: Table | TabularTable = (
        TabularTable(directory, key, ref, seed=seed)
        if config.population is not None and config.population.oracle == "exact"
        else Table(directory, config, key, ref, seed=seed, greedy=not sample, nodes=nodes)
    )
    greet(table.spec.players, seat, ref, key, HELP)
    returns = converse(table, seat)
    if returns is None:
        typer.echo("Left the game.")
        return
    typer.echo(label_board(table.position.text()))
    typer.echo(outcome(returns, seat, together=table.spec.is_cooperative))


def greet(players: int, seat: int, ref: PolicyRef, key: str, words: str) -> None:
    """Say how to play, if the game has such a seat."""
    if not 0 <= seat < players:
        raise ConfigError(f"--seat {seat}: {key} has seats 0 to {players - 1}")
    typer.echo(f"You are seat {seat} of {players} against {ref} at {key}; {words}.")


def talk(
    directory: RunDirectory, config: RunConfig, key: str, ref: PolicyRef, *, seat: int, seed: int, greedy: bool
) -> None:
    """Play one game of words against a language model; the episode's error says when the person left."""
    from ludus.cli.match_games import language_runner
    from ludus.games.registry import make_text_game
    from ludus.records import PolicyName, PolicyRef, Seat, Task, TaskId

    players = make_text_game(key).spec.players
    greet(players, seat, ref, key, WORDS_HELP)
    runner = language_runner(directory, config, ref, name=config.name, slots=1, guests={PERSON: Person()})
    person, others = Seat(policy=PolicyRef(name=PolicyName(PERSON))), Seat(policy=ref, greedy=greedy)
    seats = tuple(person if place == seat else others for place in range(players))
    runner.submit([Task(id=TaskId(0), game=key, seed=seed, seats=seats, purpose="evaluate")])
    while not runner.is_idle:
        runner.step()
    (episode,) = runner.harvest().episodes
    runner.close()
    if episode.error:
        typer.echo("Left the game." if episode.error.startswith("Left") else f"The game failed: {episode.error}")
        return
    for place, reply, accepted in zip(episode.move_seats, episode.replies, episode.move_actions, strict=True):
        if not accepted:
            typer.echo(f"seat {place} said {reply!r}, which is no legal move, and forfeits.")
    typer.echo(outcome(list(episode.returns), seat))


class Left(RolloutError):
    """The person left the game."""


class Person:
    """Whoever sits at the terminal, in a game of words."""

    def choose(self, position: TextPosition, seat: int, rng: np.random.Generator) -> str:
        """Show what is new and ask for a legal move."""
        from ludus.games.move_text import find_move

        typer.echo(position.news(seat))
        moves = position.moves(seat)

        def read(text: str) -> str | None:
            return text if text and (moves is None or find_move(text, moves) is not None) else None

        legal = ", ".join(moves) if moves else "this game cannot list them"
        chosen = ask(read, legal)
        if chosen is None:
            raise Left("left")
        return chosen


def converse(table: Table | TabularTable, seat: int) -> list[float] | None:
    """Play one game; None when the person leaves."""
    position: Position = table.position
    while acting := position.acting():
        moves: dict[int, int] = {}
        for mover in acting:
            if mover == seat:
                typer.echo(label_board(position.text(seat)))
                chosen = ask_on_board(table, seat)
                if chosen is None:
                    return None
                moves[mover] = chosen
            else:
                moves[mover] = table.decide(mover)
        for mover, action in moves.items():
            if mover != seat:
                typer.echo(f"seat {mover} plays {position.action_text(mover, action)}")
        position.act(moves)
    return list(read_returns(position, table.spec.players))


def ask(understand: Callable[[str], Move | None], legal: str, think: Callable[[], str] | None = None) -> Move | None:
    """Ask for a legal move until there is one; None for leaving. `think` says what the policy would play."""
    while True:
        try:
            text = input("your move> ").strip()
        except EOFError:
            return None
        if text.lower() in ("q", "quit", "exit"):
            return None
        if text == "?":
            typer.echo(f"legal moves: {legal}")
        elif text == "??" and think is not None:
            typer.echo(think())
        elif (chosen := understand(text)) is not None:
            return chosen
        else:
            words = WORDS_HELP if think is None else HELP
            typer.echo(f"{text[:40]!r} is not a legal move here; {words}")


def ask_on_board(table: Table | TabularTable, seat: int) -> int | None:
    """A legal action; None for leaving."""
    position = table.position
    names = {action: position.action_text(seat, action) for action in position.legal(seat)}
    # A game that reads its own notation is asked alone: `c4` is not Bc4.
    parse = getattr(position, "parse_action", None)
    read = (lambda text: parse(seat, text)) if parse else (lambda text: understand(text, names))
    legal = ", ".join(names.values() if parse else (f"{action} ({name})" for action, name in names.items()))
    return ask(read, legal, lambda: thoughts(table, seat, names))


def thoughts(table: Table | TabularTable, seat: int, names: dict[int, str]) -> str:
    """What the policy would play in the person's place, the likeliest first, and what it expects to get."""
    chances, value = table.think(seat)
    listed = sorted(chances.items(), key=lambda item: -item[1])
    lines = [f"{chance:6.1%}  {action} ({names[action]})" for action, chance in listed]
    return "\n".join([*lines, *([] if value is None else [f"value for you: {value:+.2f}"])])


def understand(text: str, names: dict[int, str]) -> int | None:
    """Read a move: its name as the game writes it, its number, or an unambiguous part of its name."""
    if text in names.values():
        return next(action for action, name in names.items() if name == text)
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) in names:
        return int(text)
    matching = [action for action, name in names.items() if text and text.lower() in name.lower()]
    return matching[0] if len(matching) == 1 else None


def outcome(returns: list[float], seat: int, *, together: bool = False) -> str:
    """How it went, in words; `together`: nobody played against anybody."""
    if together or len(returns) == 1:
        return f"Your return: {returns[seat]:g}."
    best = max(returns)
    if all(value == best for value in returns):
        return "A draw."
    return "You won." if returns[seat] == best else "You lost."
