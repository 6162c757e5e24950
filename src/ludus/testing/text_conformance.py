"""`check_text_game`: plays a game of words at random and checks every promise of `ludus.games.protocol`.

Covered: spec, news, lists of moves, refusals that change nothing, returns, repetition from the seed, independence of
positions. Where a game cannot list its moves, they are guessed from its news, and a game that refuses all guesses is
left there. Not covered: whether the rules are right, and whether the text says enough to play well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random

from ludus.games.protocol import GameSpec, InvalidMove, TextGame, TextPosition
from ludus.testing.conformance import ConformanceError, call, require

NONSENSE = "~ no such move ~"
GUESSES = ("[1]", "[pass]", "[accept]", "[a1]", "[up]", "[check]", "[0 0]", "Hello.")
MAX_GUESSES = 8
CLOSE_LOOK_PLIES = 8
"""Every ply is looked at closely up to here, and after it one in `CLOSE_LOOK_EVERY`."""
CLOSE_LOOK_EVERY = 16
TOLERANCE = 1e-5

_BRACKETED = re.compile(r"\[[^\[\]\n]{1,40}\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSnapshot:
    """All that can be asked of a position."""

    acting: int | None
    news: str
    moves: tuple[str, ...] | None
    returns: tuple[float, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedTextGame:
    """What happened in one game: enough to play it again and compare."""

    seed: int
    moves: list[str]
    snapshots: dict[int, TextSnapshot]
    """By the number of moves before it."""


def check_text_game(
    game: TextGame, *, games: int = 5, seed: int = 0, max_plies: int = 200, guesses: Sequence[str] = GUESSES
) -> None:
    """Check that a text game keeps the promises of the protocol; raise `ConformanceError` naming the one it breaks.

    Games are left after `max_plies` moves. `guesses` are moves to try where the game cannot list them, beside those
    that stand in brackets in its news.
    """
    spec: object = call("spec", lambda: game.spec)
    if not isinstance(spec, GameSpec):
        raise ConformanceError(f"{type(game).__name__}: spec is a GameSpec; got {type(spec).__name__}")
    try:
        _check_spec(game, spec)
        for number in range(games):
            played = _play(game, spec, seed + number, max_plies, guesses)
            _repeat_beside_another(game, spec, played, guesses)
        _check_seed_matters_only_with_chance(game, spec, seed)
    except ConformanceError as error:
        raise ConformanceError(f"{spec.key}: {error}") from error


def _check_spec(game: TextGame, spec: GameSpec) -> None:
    require(bool(spec.key), "spec has a key")
    require(game.spec == spec, "spec is constant")
    require(isinstance(game.blocks, bool), "blocks is True or False")
    require(spec.players >= 1 and spec.max_length >= 1, "spec has at least one player and one ply")
    require(spec.actions == 0 and spec.observation_shape == (), "spec of a text game has no actions and no tensor")
    require(not spec.is_simultaneous, "seats of a text game act one at a time, so spec.is_simultaneous is False")
    require(spec.min_return <= spec.max_return, "spec.min_return is at most spec.max_return")
    require(len(spec.teams) in (0, spec.players), "spec.teams is empty or names a team for each seat")
    require(not (spec.is_zero_sum and spec.players == 1), "a game for one player is not zero-sum")


def _start(game: TextGame, seed: int) -> TextPosition:
    position = call(f"start({seed})", game.start, seed)
    require(isinstance(position, TextPosition), "start() gives a TextPosition")
    return position


def _play(game: TextGame, spec: GameSpec, seed: int, max_plies: int, guesses: Sequence[str]) -> PlayedTextGame:
    rng = Random(seed)
    position = _start(game, seed)
    played = PlayedTextGame(seed=seed, moves=[], snapshots={})
    while (seat := _acting(position, spec)) is not None and len(played.moves) < max_plies:
        ply = len(played.moves)
        require(ply < spec.max_length, f"a game ends within max_length ({spec.max_length}) plies")
        if _is_looked_at_closely(ply):
            played.snapshots[ply] = _look(position, spec)
            _check_refusals(position, spec, played.snapshots[ply])
        move = _move(position, spec, seat, guesses, rng)
        if move is None:
            return played
        played.moves.append(move)
    played.snapshots[len(played.moves)] = _look(position, spec)
    if position.acting() is None:
        _check_end(position, spec, played.snapshots[len(played.moves)])
    return played


def _move(position: TextPosition, spec: GameSpec, seat: int, guesses: Sequence[str], rng: Random) -> str | None:
    """Make a legal move, any that is listed or the first guess that is taken; None when none is."""
    moves = _moves(position, seat)
    if moves is not None:
        move = rng.choice(moves)
        call(f"act({seat}, {move!r}), which moves() lists,", position.act, seat, move)
        return move
    likely: list[str] = [*guesses, *_BRACKETED.findall(_news(position, seat))]
    before = _look(position, spec)
    for guess in rng.sample(likely, min(MAX_GUESSES, len(likely))):
        if _is_accepted(position, seat, guess):
            return guess
        require(_look(position, spec) == before, f"a refused act({seat}, {guess!r}) changes nothing")
    return None


def _is_accepted(position: TextPosition, seat: int, move: str) -> bool:
    try:
        call(f"act({seat}, {move!r})", position.act, seat, move)
    except ConformanceError as error:
        if isinstance(error.__cause__, InvalidMove):
            return False
        raise
    return True


def _check_refusals(position: TextPosition, spec: GameSpec, before: TextSnapshot) -> None:
    """What nobody may do is refused with InvalidMove and changes nothing."""
    refused = [(seat, before.moves[0] if before.moves else NONSENSE) for seat in range(spec.players)]
    refused = [(seat, move) for seat, move in refused if seat != before.acting][:1]
    if before.moves is not None and before.acting is not None:
        refused += [(before.acting, NONSENSE), (before.acting, "")]
    for seat, move in refused:
        require(not _is_accepted(position, seat, move), f"act({seat}, {move!r}) is refused with InvalidMove")
        require(_look(position, spec) == before, f"a refused act({seat}, {move!r}) changes nothing")


def _check_end(position: TextPosition, spec: GameSpec, end: TextSnapshot) -> None:
    scale = max(1.0, *(abs(value) for value in end.returns))
    low, high = spec.min_return - TOLERANCE * scale, spec.max_return + TOLERANCE * scale
    within = all(low <= value <= high for value in end.returns)
    require(within, f"returns lie within [{spec.min_return}, {spec.max_return}]; got {end.returns}")
    balanced = not spec.is_zero_sum or abs(sum(end.returns)) <= TOLERANCE * scale
    require(balanced, f"returns of a zero-sum game sum to 0; got {end.returns}")
    require(not _is_accepted(position, 0, NONSENSE), "act() after the end is refused with InvalidMove")
    require(_look(position, spec) == end, "a finished game stays as it is")


def _repeat_beside_another(game: TextGame, spec: GameSpec, played: PlayedTextGame, guesses: Sequence[str]) -> None:
    """The same seed and moves give the same game, also while another is played and without the refused moves."""
    rng = Random(played.seed + 1)
    position, other = _start(game, played.seed), _start(game, played.seed + 1)
    for ply in range(len(played.moves) + 1):
        if ply in played.snapshots:
            is_same = _look(position, spec) == played.snapshots[ply]
            require(is_same, f"the same seed and moves give the same game, beside others too; ply {ply} differs")
        if ply < len(played.moves):
            seat = _acting(position, spec)
            require(seat is not None, "the same seed and moves give the same game; it ends earlier")
            call(f"act({seat}, {played.moves[ply]!r})", position.act, seat or 0, played.moves[ply])
        other_seat = _acting(other, spec)
        if other_seat is not None:
            _move(other, spec, other_seat, guesses, rng)


def _check_seed_matters_only_with_chance(game: TextGame, spec: GameSpec, seed: int) -> None:
    if spec.has_chance:
        return
    starts = [_look(_start(game, seed + shift), spec) for shift in range(5)]
    require(all(start == starts[0] for start in starts), "a game without chance starts the same with every seed")


def _look(position: TextPosition, spec: GameSpec) -> TextSnapshot:
    seat = _acting(position, spec)
    returns = tuple(float(value) for value in call("returns()", position.returns))
    require(len(returns) == spec.players, f"returns() has one number per seat; got {returns}")
    require(all(isfinite(value) for value in returns), f"returns() are finite; got {returns}")
    text = call("text()", position.text)
    require(isinstance(text, str) and bool(text), "text() is a text")
    return TextSnapshot(
        acting=seat,
        news="" if seat is None else _news(position, seat),
        moves=None if seat is None else _moves(position, seat),
        returns=returns,
        text=text,
    )


def _acting(position: TextPosition, spec: GameSpec) -> int | None:
    seat = call("acting()", position.acting)
    require(seat is None or seat in range(spec.players), f"acting() is a seat or None; got {seat!r}")
    require(position.acting() == seat, "acting() asked again gives the same")
    return seat


def _news(position: TextPosition, seat: int) -> str:
    news = call(f"news({seat})", position.news, seat)
    require(isinstance(news, str) and bool(news.strip()), f"news() is a text that says something; got {news!r}")
    require(position.news(seat) == news, "news() asked again before the move gives the same")
    return news


def _moves(position: TextPosition, seat: int) -> tuple[str, ...] | None:
    moves: Sequence[str] | None = call(f"moves({seat})", position.moves, seat)
    if moves is None:
        return None
    require(bool(moves), "moves() of an acting seat is not empty; None says that they cannot be listed")
    is_text = all(isinstance(move, str) and bool(move.strip()) for move in moves)
    require(is_text and len(set(moves)) == len(moves), f"moves() are distinct words; got {list(moves)[:20]}")
    return tuple(moves)


def _is_looked_at_closely(ply: int) -> bool:
    return ply < CLOSE_LOOK_PLIES or ply % CLOSE_LOOK_EVERY == 0
