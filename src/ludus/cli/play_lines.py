"""One game between a person and a policy over JSON lines: what the web page starts for each of its games.

    python -m ludus.cli.play_lines '{"run": "runs/x", "policy": "main@3", "seat": 0}'

Each line of the output is the game as it is now (`State`); each line of the input is a move, `{"move": 3}` on a board
and `{"move": "[4]"}` in words. The end of the input ends the game. Invariant: nothing of the run is changed, and
nothing but states is written to the output.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from ludus.cli.play import PERSON, Left, outcome
from ludus.errors import ConfigError, LudusError
from ludus.games.answers import read_returns
from ludus.games.board_frames import Drawing
from ludus.games.move_text import find_move
from ludus.records import PolicyName, PolicyRef, Seat, Task, TaskId, derive_seed

if TYPE_CHECKING:
    import numpy as np

    from ludus.config import RunConfig
    from ludus.games.protocol import TextPosition
    from ludus.storage.run_directory import RunDirectory

MOST_TEXT = 100_000


class Wanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The game that is asked for."""

    run: str
    policy: str = ""
    game: str = ""
    seat: int = 0
    seed: int = 0
    sample: bool = False


class Legal(msgspec.Struct, kw_only=True):
    """A legal move."""

    move: int | str
    text: str
    cells: list[int] = []


class State(msgspec.Struct, kw_only=True):
    """The game as the person sees it."""

    policy: str
    game: str
    seat: int
    players: int = 2
    kind: str = "text"
    rows: int = 0
    columns: int = 0
    cells: str = ""
    text: str = ""
    turn: bool = False
    """Whether the person is to move."""
    legal: list[Legal] = []
    free: bool = False
    """Whether any text may be a move: the game cannot list them."""
    moves: list[tuple[int, str]] = []
    """Seat and move, as the game writes it."""
    returns: list[float] = []
    outcome: str = ""
    error: str = ""


class Said(msgspec.Struct, kw_only=True):
    """What the person says."""

    move: int | str


class Talk:
    """The lines in and out."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self._source, self._target = source, target

    def tell(self, state: State) -> None:
        """Write the state."""
        self._target.write(msgspec.json.encode(state).decode() + "\n")
        self._target.flush()

    def ask(self, state: State) -> int | str:
        """Tell the state, and wait for a legal move in reply.

        Raises:
            Left: nobody is there any more.
        """
        moves = {each.move for each in state.legal}
        while True:
            self.tell(state)
            line = self._source.readline()
            if not line:
                raise Left("left")
            try:
                move = msgspec.json.decode(line, type=Said).move
            except msgspec.DecodeError:
                move = ""
            if isinstance(move, str) and move and (state.free or find_move(move, [str(each) for each in moves])):
                return move
            if move in moves:
                return move
            state = msgspec.structs.replace(state, error=f"{str(move)[:100]!r} is no legal move here")


def play_board(run: RunDirectory, config: RunConfig, key: str, ref: PolicyRef, wanted: Wanted, talk: Talk) -> None:
    """A game on a board, whose policy is a network or a table."""
    from ludus.cli.tables import Table, TabularTable

    table: Table | TabularTable = (
        TabularTable(run, key, ref, seed=wanted.seed)
        if config.population is not None and config.population.oracle == "exact"
        else Table(run, config, key, ref, seed=wanted.seed, greedy=not wanted.sample, nodes=1)
    )
    position, drawing = table.position, Drawing(key, table.position, derive_seed(wanted.seed, "game"))
    said: list[tuple[int, str]] = []

    def show(**more: Any) -> State:
        rows, columns, cells, text = drawing.show()
        shown = text if cells else position.text(wanted.seat)
        return State(
            policy=str(ref),
            game=key,
            seat=wanted.seat,
            players=table.spec.players,
            kind=drawing.kind if cells else "text",
            rows=rows,
            columns=columns,
            cells=cells,
            text=shown[:MOST_TEXT],
            moves=list(said),
            **more,
        )

    while acting := position.acting():
        moves: dict[int, int] = {}
        for mover in acting:
            if mover != wanted.seat:
                moves[mover] = table.decide(mover)
                continue
            state = show(turn=True)
            state.legal = [
                Legal(
                    move=int(action),
                    text=position.action_text(mover, action),
                    cells=drawing.cells_of(action, state.rows, state.columns),
                )
                for action in position.legal(mover)
            ]
            moves[mover] = int(talk.ask(state))
        said += [(mover, position.action_text(mover, action)) for mover, action in moves.items()]
        position.act(moves)
        drawing.act(moves)
    returns = list(read_returns(position, table.spec.players))
    together = table.spec.is_cooperative
    talk.tell(show(returns=returns, outcome=outcome(returns, wanted.seat, together=together)))


class Guest:
    """The person at a game of words, and what they have seen of it."""

    def __init__(self, state: State, talk: Talk) -> None:
        self._state, self._talk = state, talk
        self._said: list[tuple[int, str]] = []
        self._seen: list[str] = []

    @property
    def seen(self) -> str:
        """What the game told, and what was said to it; of a long one its end."""
        return "\n\n".join(self._seen)[-MOST_TEXT:]

    def choose(self, position: TextPosition, seat: int, rng: np.random.Generator) -> str:
        """Show what is new and wait for a move."""
        moves = position.moves(seat)
        legal = [Legal(move=move, text=move) for move in moves or ()]
        self._seen.append(position.news(seat)[:MOST_TEXT])
        shown = {"text": self.seen, "moves": list(self._said)}
        state = msgspec.structs.replace(self._state, turn=True, legal=legal, free=moves is None, **shown)
        said = str(self._talk.ask(state))
        self._said.append((seat, said))
        self._seen.append(f"> {said}")
        return said


def play_words(run: RunDirectory, config: RunConfig, key: str, ref: PolicyRef, wanted: Wanted, talk: Talk) -> None:
    """A game of words against a language model."""
    from ludus.cli.match_games import language_runner
    from ludus.games.registry import make_text_game

    players = make_text_game(key).spec.players
    state = State(policy=str(ref), game=key, seat=wanted.seat, players=players)
    guest = Guest(state, talk)
    runner = language_runner(run, config, ref, name=config.name, slots=1, guests={PERSON: guest})
    person, others = Seat(policy=PolicyRef(name=PolicyName(PERSON))), Seat(policy=ref, greedy=not wanted.sample)
    seats = tuple(person if place == wanted.seat else others for place in range(players))
    runner.submit([Task(id=TaskId(0), game=key, seed=wanted.seed, seats=seats, purpose="evaluate")])
    while not runner.is_idle:
        runner.step()
    (episode,) = runner.harvest().episodes
    runner.close()
    if episode.error.startswith("Left"):
        return
    said = [(int(seat), reply) for seat, reply in zip(episode.move_seats, episode.replies, strict=True)]
    returns = list(episode.returns)
    end = "" if episode.error else outcome(returns, wanted.seat)
    shown = {"text": guest.seen, "moves": said}
    talk.tell(msgspec.structs.replace(state, returns=returns, outcome=end, error=episode.error, **shown))


def play(wanted: Wanted, talk: Talk) -> None:
    """Play one game to its end, or until the person leaves.

    Raises:
        ConfigError: there is no such run, game, version or seat.
    """
    from ludus.cli.arguments import choose_game, games_of, need_run
    from ludus.config import load_config
    from ludus.policies.store import choose_policy
    from ludus.runtime import limit_threads

    limit_threads(1, os.environ)  # before anything loads JAX
    run = need_run(Path(wanted.run))
    config = load_config(run.config)
    key = choose_game(run.path, games_of(config), wanted.game or None, none="has no games to play")
    ref = choose_policy(run, config, wanted.policy or None)
    in_words = config.policy.model is not None
    if not in_words:
        from ludus.games import make_game

        players = make_game(key).spec.players
        if not 0 <= wanted.seat < players:
            raise ConfigError(f"{key} has seats 0 to {players - 1}")
    (play_words if in_words else play_board)(run, config, key, ref, wanted, talk)


def main() -> None:
    """Entry point of the process."""
    lines, sys.stdout = sys.stdout, sys.stderr  # what a game prints is no state
    talk = Talk(sys.stdin, lines)
    wanted = msgspec.json.decode(sys.argv[1], type=Wanted)
    try:
        play(wanted, talk)
    except Left:
        return
    except LudusError as error:
        talk.tell(State(policy=wanted.policy, game=wanted.game, seat=wanted.seat, error=str(error)))


if __name__ == "__main__":
    main()
