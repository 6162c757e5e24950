"""Words in the terminal: sit down against a language model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import typer

from ludus.config import RunConfig
from ludus.errors import RolloutError
from ludus.records import Episode, PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    import numpy as np

    from ludus.games.text_protocol import TextPosition

PERSON = "you"


class Left(RolloutError):
    """The person left the game."""


class Person:
    """Whoever sits at the terminal."""

    def choose(self, position: TextPosition, seat: int, rng: np.random.Generator) -> str:
        """Show what is new and ask for a legal move until there is one."""
        from ludus.games.move_text import find_move

        typer.echo(position.news(seat))
        moves = position.moves(seat)
        while True:
            try:
                text = input("your move> ").strip()
            except EOFError:
                raise Left("left") from None
            if text.lower() in ("q", "quit", "exit"):
                raise Left("left")
            if text == "?":
                typer.echo("legal moves: " + (", ".join(moves) if moves else "this game cannot list them"))
            elif text and (moves is None or find_move(text, moves) is not None):
                return text
            else:
                typer.echo(f"{text[:40]!r} is not a legal move here; type a move, ? for the legal moves, q to leave")


def play_in_words(
    directory: RunDirectory, config: RunConfig, key: str, ref: PolicyRef, *, seat: int, seed: int, greedy: bool
) -> Episode:
    """One game of a person against a language model; the episode's error says when the person left."""
    from ludus.explore.messages import Setup
    from ludus.explore.runners.text_building import build_language_runner
    from ludus.games.text_registry import make_text_game
    from ludus.lm.language_shape import LanguageModelShape
    from ludus.policies import PolicyStore
    from ludus.runtime import Pulse

    shape = PolicyStore(directory.policies).shape(ref)
    if isinstance(shape, LanguageModelShape):
        shape = shape.standing_on(directory.base)
    setup = Setup(
        run_dir=str(directory.path),
        run=config.name,
        config=config.model_dump_json(),
        shape=shape.to_json(),
        slots=1,
    )
    guests = {PERSON: Person()}
    runner = build_language_runner(setup, config, Pulse(), extra_players=guests, deadline_s=math.inf, is_patient=False)
    person, others = Seat(policy=PolicyRef(name=PolicyName(PERSON))), Seat(policy=ref, greedy=greedy)
    seats = tuple(person if place == seat else others for place in range(make_text_game(key).spec.players))
    runner.submit([Task(id=TaskId(0), game=key, seed=seed, seats=seats, purpose="evaluate")])
    while not runner.is_idle:
        runner.step()
    (episode,) = runner.harvest().episodes
    runner.close()
    return episode
