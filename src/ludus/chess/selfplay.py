"""Games of a network against itself: many at once, one PUCT search over all of them, into chunks.

A position's policy target is the share of visits, its values are the search's, `orig` is what the network said before
the search. Invariant: the games of one network depend on it, the settings, the seed and the number of the first game.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from ludus_chess import START_FEN, Board, RootStats, Search, encode_game
from numpy.typing import NDArray

from ludus.chess.chunk_writer import ChunkWriter
from ludus.chess.evaluators import Evaluator
from ludus.chess.tally import Progress, Tally
from ludus.chess.thinking import answers
from ludus.records import derive_seed

MOST_LEAVES = 256
LEAVES_PER_TREE = 4
"""Of one game in one batch: few, because there are many games."""
Value = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfplaySettings:
    """How games are played."""

    visits: int = 64
    temperature: float = 1.0
    """Moves are drawn from visits ^ (1 / T); 0 takes the most visited."""
    temperature_plies: int = 30
    noise: float = 0.25
    """Share of Dirichlet noise in the root's priors."""
    max_plies: int = 400
    """Longer games are drawn."""
    parallel: int = 32


@dataclass(slots=True, kw_only=True)
class GameRecord:
    """One game in progress."""

    number: int
    rng: np.random.Generator
    moves: list[str] = field(default_factory=list)
    policies: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = field(default_factory=list)
    values: list[tuple[Value, Value, Value, Value]] = field(default_factory=list)
    """Root, best, played, orig."""
    visits: list[int] = field(default_factory=list)
    best: list[int] = field(default_factory=list)
    kld: list[float] = field(default_factory=list)

    def add(self, stats: RootStats, place: int, move: str) -> None:
        """Take a searched position and the move that is played in it, by its place among the legal ones."""
        shares = stats.visits.astype(np.float64)
        shares = shares / shares.sum() if shares.sum() else np.eye(len(shares))[stats.best]
        priors = np.maximum(stats.priors.astype(np.float64), 1e-12)
        self.moves.append(move)
        self.policies.append((stats.indices.astype(np.int64), shares.astype(np.float32)))
        root, orig = _value(*stats.root), _value(*stats.raw)
        best, played = (_value(stats.q[at], stats.d[at], stats.m[at], instead=root) for at in (stats.best, place))
        self.values.append((root, best, played, orig))
        self.visits.append(max(int(stats.root_visits), 1))
        self.best.append(int(stats.indices[stats.best]))
        self.kld.append(float((shares * np.log(np.maximum(shares, 1e-12) / priors)).sum()))

    def encode(self, result: str, *, too_long: bool, input_format: int) -> bytes:
        """The records of the finished game, with the planes that the network sees.

        Where a network does not say how long it goes on, what was left counts.
        """
        values = np.array(self.values, np.float32).reshape(len(self.moves), 4, 3)
        left = np.arange(len(self.moves), 0, -1, dtype=np.float32)[:, None]
        values[:, :, 2] = np.where(values[:, :, 2] > 0, values[:, :, 2], left)
        return encode_game(
            START_FEN,
            self.moves,
            self.policies,
            result,
            root=values[:, 0],
            best=values[:, 1],
            played=values[:, 2],
            orig=values[:, 3],
            visits=np.array(self.visits, np.int64),
            best_indices=np.array(self.best, np.int64),
            policy_kld=np.array(self.kld, np.float32),
            input_format=input_format,
            too_long=too_long,
        )


def selfplay(
    evaluator: Evaluator,
    settings: SelfplaySettings,
    writer: ChunkWriter,
    *,
    games: int | None,
    seed: int = 0,
    progress: Progress = lambda _: None,
    newest: Callable[[], Evaluator] | None = None,
) -> Tally:
    """Play games and write them; `games` None goes on until it is interrupted.

    With `newest` all games go on with the network that it gives, which is asked for after each game.
    """
    tally, first = Tally(), writer.first_number()
    count = settings.parallel if games is None else min(settings.parallel, games)
    playing = [_begin(seed, first + number) for number in range(count)]
    next_number = first + count
    search = Search(
        [Board() for _ in playing],
        noise_epsilon=settings.noise,
        input_format=evaluator.input_format,
        seed=derive_seed(seed, "selfplay_search", first) & 0x7FFFFFFF,
    )
    while games is None or tally.games < games:
        _search(search, evaluator, settings)
        for tree, game in enumerate(playing):
            if game is None:
                continue
            _move(search, tree, game, settings)
            outcome = search.board(tree).outcome()
            if outcome is None and len(game.moves) < settings.max_plies:
                continue
            result, reason = outcome or ("1/2-1/2", "length")
            records = game.encode(result, too_long=outcome is None, input_format=evaluator.input_format)
            writer.add(game.number, records, positions=len(game.moves))
            tally.add(positions=len(game.moves), result=result, reason=reason)
            progress(tally)
            # Beyond the last game, the tree keeps its finished one, which costs nothing.
            playing[tree] = None
            if games is None or next_number < first + games:
                playing[tree] = _begin(seed, next_number)
                search.reset(tree, Board())
                next_number += 1
            evaluator = evaluator if newest is None else newest()
    return tally


def _begin(seed: int, number: int) -> GameRecord | None:
    return GameRecord(number=number, rng=np.random.default_rng(derive_seed(seed, "selfplay_game", number)))


def _search(search: Search, evaluator: Evaluator, settings: SelfplaySettings) -> None:
    while len(planes := search.collect(MOST_LEAVES, visits=settings.visits, leaves_per_tree=LEAVES_PER_TREE)):
        search.apply(*answers(evaluator(planes)))


def _move(search: Search, tree: int, game: GameRecord, settings: SelfplaySettings) -> None:
    stats = search.root(tree)
    place = stats.best
    if settings.temperature > 0 and len(game.moves) < settings.temperature_plies and stats.visits.sum():
        weights = (stats.visits / stats.visits.max()) ** (1.0 / settings.temperature)
        place = int(game.rng.choice(len(weights), p=weights / weights.sum()))
    index = int(stats.indices[place])
    game.add(stats, place, search.board(tree).move_of(index))
    search.push_index(tree, index)


def _value(q: float, d: float, m: float, instead: Value = (0.0, 0.0, 0.0)) -> Value:
    """q, d and m within their ranges; `instead` of what is not known."""
    q, d, m = (float(own) if np.isfinite(own) else other for own, other in zip((q, d, m), instead, strict=True))
    return min(max(q, -1.0), 1.0), min(max(d, 0.0), 1.0), max(m, 0.0)
