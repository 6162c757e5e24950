"""One game that an engine plays against itself, with what its search found as targets.

A position's value targets are the engine's WDL (its centipawns, through a logistic curve, where it has none). Its
policy target is a softmax over the scores of its MultiPV lines. Legal moves outside the lines get 0. `m` is the number
of plies that were left, known after the game. Random moves at the beginning and a temperature make games differ;
positions where a random move is played are searched like others, and their targets are the search's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from ludus_chess import START_FEN, Board, encode_game
from numpy.typing import NDArray

from ludus.chess.engines.engine import Analysis, Engine, EngineError, Limit
from ludus.chess.engines.info import Line
from ludus.chess.engines.player import draw_move

CP_PER_DECADE = 400.0
"""Of a logistic curve: so many centipawns make odds ten times better."""
Stop = Callable[[], bool]
Value = tuple[float, float]
"""q = W - L and d, for the side to move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSettings:
    """How games are made different, and how scores become targets."""

    limit: Limit
    random_plies: int = 4
    """Each game begins with 0 to so many random moves."""
    temperature: float = 20.0
    """In centipawns: moves are drawn from the lines in proportion to exp(score / temperature)."""
    temperature_plies: int = 30
    """After so many plies the best move is played."""
    policy_temperature: float = 20.0
    """In centipawns: of the policy target."""
    max_plies: int = 400
    """Longer games are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedGame:
    """A game as records, and how it went."""

    records: bytes
    positions: int
    result: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ply:
    """One position's search and the move that was played in it."""

    move: str
    indices: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    best_index: int
    root: Value
    played: Value | None
    """None where the search said nothing about the move."""
    visits: int


def play_game(engine: Engine, settings: GameSettings, rng: np.random.Generator, stop: Stop) -> PlayedGame | None:
    """Play a game to its end; None when it was stopped.

    Raises:
        EngineError: the engine failed, or found a move that is not legal.
    """
    board, moves, plies = Board(), list[str](), list[Ply]()
    random_plies = int(rng.integers(settings.random_plies + 1))
    engine.new_game()
    while (outcome := board.outcome()) is None and len(moves) < settings.max_plies:
        if stop():
            return None
        found = engine.analyse(moves, settings.limit)
        ply = _ply(engine, board, found, settings, rng, is_random=len(moves) < random_plies, number=len(moves))
        plies.append(ply)
        moves.append(ply.move)
        board.push(ply.move)
    result, reason = outcome or ("1/2-1/2", "length")
    records = _encode(moves, plies, result, too_long=outcome is None)
    return PlayedGame(records=records, positions=len(plies), result=result, reason=reason)


def _ply(
    engine: Engine,
    board: Board,
    found: Analysis,
    settings: GameSettings,
    rng: np.random.Generator,
    *,
    is_random: bool,
    number: int,
) -> Ply:
    legal = board.legal_moves()
    lines = [line for line in found.lines if line.score is not None]
    if found.best not in legal or any(line.moves[0] not in legal for line in lines):
        engine.close()
        raise EngineError(f"engine {engine.label} found moves that are not legal in {board.fen()}: {found.best}")
    if is_random:
        move = legal[int(rng.integers(len(legal)))]
    else:
        warm = number < settings.temperature_plies
        move = draw_move(found, settings.temperature if warm else 0.0, rng) or found.best
    indices, probabilities = _policy(board, lines, found.best, settings.policy_temperature)
    values = {line.moves[0]: value_of(line) for line in reversed(lines)}
    return Ply(
        move=move,
        indices=indices,
        probabilities=probabilities,
        best_index=board.index_of(found.best),
        root=value_of(lines[0]) if lines else (0.0, 0.0),
        played=values.get(move),
        visits=max([settings.limit.nodes or 0, 1, *(line.nodes for line in lines)]),
    )


def _policy(
    board: Board, lines: Sequence[Line], best: str, temperature: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The policy target: policy indices of the lines' moves, and their probabilities."""
    scores = {line.moves[0]: line.score or 0.0 for line in reversed(lines)} or {best: 0.0}
    values = np.array(list(scores.values()))
    weights = np.exp((values - values.max()) / max(temperature, 1e-3))
    indices = np.array([board.index_of(move) for move in scores], np.int64)
    return indices, (weights / weights.sum()).astype(np.float32)


def value_of(line: Line) -> Value:
    """q and d of a line's score."""
    if line.wdl is not None:
        win, draw, loss = (share / sum(line.wdl) for share in line.wdl)
        return win - loss, draw
    if line.mate is not None:
        return (1.0 if line.mate > 0 else -1.0), 0.0
    expected = 1.0 / (1.0 + 10.0 ** (-(line.cp or 0) / CP_PER_DECADE))
    return 2.0 * expected - 1.0, min(expected, 1.0 - expected)


def _encode(moves: Sequence[str], plies: Sequence[Ply], result: str, *, too_long: bool) -> bytes:
    count = len(plies)
    left = np.arange(count, 0, -1, dtype=np.float32)
    root = np.array([(*ply.root, left[i]) for i, ply in enumerate(plies)], np.float32).reshape(count, 3)
    played = root.copy()
    for i, ply in enumerate(plies):
        if ply.played is not None:
            played[i, :2] = ply.played
        elif i + 1 < count:
            # What the search of the next position says about the move that led there.
            played[i, :2] = -root[i + 1, 0], root[i + 1, 1]
    return encode_game(
        START_FEN,
        list(moves),
        [(ply.indices, ply.probabilities) for ply in plies],
        result,
        root=root,
        best=root,
        played=played,
        visits=np.array([ply.visits for ply in plies], np.int64),
        best_indices=np.array([ply.best_index for ply in plies], np.int64),
        too_long=too_long,
    )
