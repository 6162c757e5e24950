"""A UCI engine as a fixed player of any game whose positions can be told in UCI.

Invariant, as of all fixed players: it keeps nothing between moves. The engine forgets its searches before a move,
so with one thread and a limit in nodes the same position always gets the same move. It starts with the first move; one
that died or was ended costs the game at hand, and the next move starts another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from ludus.chess.engines.engine import Analysis, Engine, EngineError
from ludus.chess.engines.naming import EngineSpec, parse_engine
from ludus.errors import ConfigError, EnvError, PolicyError
from ludus.games.protocol import Game, Position


@runtime_checkable
class UciPosition(Protocol):
    """A position that a UCI engine can be told."""

    def uci_position(self) -> tuple[str, Sequence[str]]:
        """The FEN that the game began from (or `startpos`), and the moves since."""
        ...

    def from_uci(self, move: str) -> int:
        """The action that a move is; raises `EnvError` when it is not legal."""
        ...


class UciPlayer:
    """The engine of a name, such as `uci:stockfish?nodes=100`."""

    def __init__(self, name: str, game: Game) -> None:
        self._spec: EngineSpec = parse_engine(name)
        if not isinstance(game.start(0), UciPosition):
            raise ConfigError(f"player {name!r} cannot play {game.spec.key}: UCI engines play chess:standard")
        self._engine: Engine | None = None

    def choose(self, position: Position, seat: int, rng: np.random.Generator) -> int:
        """Have the engine search; a forced move is played at once."""
        if not isinstance(position, UciPosition):
            raise PolicyError(f"{type(position).__name__} cannot be told in UCI")
        legal = position.legal(seat)
        if len(legal) == 1:
            return legal[0]
        fen, moves = position.uci_position()
        engine = self._ready()
        engine.new_game()
        move = draw_move(engine.analyse(moves, self._spec.limit, fen=fen), self._spec.temperature, rng)
        try:
            if move is None:
                raise EngineError("it says that there is none")
            return position.from_uci(move)
        except PolicyError as error:
            raise self._ended(str(error)) from None
        except EnvError as error:
            raise self._ended(str(error)) from None

    def _ready(self) -> Engine:
        if self._engine is None or not self._engine.is_alive:
            self._engine = self._spec.start()
        return self._engine

    def _ended(self, why: str) -> EngineError:
        """End an engine that plays what is not legal: nothing more that it says can be relied on."""
        if self._engine is not None:
            self._engine.close()
        return EngineError(f"engine {self._spec.text} has no legal move to offer: {why}")


def draw_move(found: Analysis, temperature: float, rng: np.random.Generator) -> str | None:
    """The best move; with a temperature in centipawns, one of the lines in proportion to exp(score / temperature)."""
    scored = [(line.moves[0], line.score) for line in found.lines if line.score is not None]
    if temperature <= 0 or len(scored) < 2:
        return found.best
    scores = np.array([score for _, score in scored])
    chances = np.exp((scores - scores.max()) / temperature)
    return scored[int(rng.choice(len(scored), p=chances / chances.sum()))][0]
