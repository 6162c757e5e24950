"""Games of an engine against itself, by several engine processes at once, into chunks.

Invariant: game number n depends on the engine, the settings, the seed and n alone, where the engine uses one thread
and a limit in nodes. A game whose engine fails is counted and played again; an engine that fails again and again ends
the whole.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterator

import numpy as np

from ludus.chess.chunk_writer import ChunkWriter
from ludus.chess.engine_games import GameSettings, PlayedGame, play_game
from ludus.chess.engines import Engine, EngineError, EngineSpec
from ludus.chess.tally import Progress, Tally
from ludus.records import derive_seed

MOST_FAILURES = 5
"""In a row, of one engine process."""
WAIT_S = 0.2
Finished = tuple[int, PlayedGame | Exception | None]


class EngineGames:
    """Engine processes that play, each from a thread of its own. A context: leaving it ends them."""

    def __init__(
        self, spec: EngineSpec, settings: GameSettings, *, processes: int, seed: int, numbers: Iterator[int]
    ) -> None:
        self._spec, self._settings, self._seed = spec, settings, seed
        self._numbers = numbers
        self._finished: queue.Queue[Finished] = queue.Queue(maxsize=4 * processes)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(processes)]

    def __enter__(self) -> EngineGames:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        while any(thread.is_alive() for thread in self._threads):
            # A worker may wait for room in the queue.
            try:
                self._finished.get(timeout=WAIT_S)
            except queue.Empty:
                continue

    def finished(self) -> Iterator[tuple[int, PlayedGame | Exception]]:
        """Games as they end, with their numbers; an exception in place of one that failed. Ends when all engines have.

        The iterator gives up the thread at most `WAIT_S` at a time, so that signals are handled.
        """
        alive = len(self._threads)
        while alive:
            try:
                number, game = self._finished.get(timeout=WAIT_S)
            except queue.Empty:
                continue
            if game is None:
                alive -= 1
            else:
                yield number, game

    def _work(self) -> None:
        engine: Engine | None = None
        failures = 0
        try:
            number = next(self._numbers, None)
            while number is not None and not self._stop.is_set() and failures < MOST_FAILURES:
                rng = np.random.default_rng(derive_seed(self._seed, "engine_game", number))
                try:
                    engine = engine if engine is not None and engine.is_alive else self._start()
                    game = play_game(engine, self._settings, rng, self._stop.is_set)
                    failures = 0
                    if game is not None:
                        self._finished.put((number, game))
                        number = next(self._numbers, None)
                except Exception as error:  # a thread that dies would do so in silence
                    failures += 1
                    self._finished.put((-1, error))
        finally:
            if engine is not None:
                engine.close()
            self._finished.put((-1, None))

    def _start(self) -> Engine:
        return self._spec.start(UCI_ShowWDL=True)


def play_engine(
    spec: EngineSpec,
    settings: GameSettings,
    writer: ChunkWriter,
    *,
    games: int | None,
    processes: int = 1,
    seed: int = 0,
    progress: Progress = lambda _: None,
) -> Tally:
    """Play games and write them; `games` None goes on until it is interrupted.

    Raises:
        EngineError: all engine processes failed again and again.
    """
    tally = Tally()
    first = writer.first_number()
    numbers = itertools.count(first) if games is None else iter(range(first, first + games))
    with EngineGames(spec, settings, processes=processes, seed=seed, numbers=numbers) as playing:
        for number, game in playing.finished():
            if isinstance(game, Exception):
                tally.failed, tally.last_failure = tally.failed + 1, str(game)
            else:
                writer.add(number, game.records, positions=game.positions)
                tally.add(positions=game.positions, result=game.result, reason=game.reason)
            progress(tally)
            if games is not None and tally.games >= games:
                return tally
    raise EngineError(f"no engine plays on after {tally.failed} failed games; the last: {tally.last_failure}")
