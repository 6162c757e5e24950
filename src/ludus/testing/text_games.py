"""`check_text_game`: plays a game of words at random and checks every promise of `ludus.games.protocol`.

Covered: spec, news, lists of moves, refusals that change nothing, returns, repetition from the seed, independence of
positions. Where a game cannot list its moves, they are guessed from its news, and a game that refuses all guesses is
left there. Not covered: whether the rules are right, and whether the text says enough to play well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ludus.games.missing_methods import missing_methods
from ludus.games.protocol import GameSpec, InvalidMove, TextGame, TextPosition
from ludus.testing.conformance import ConformanceError, call, require
from ludus.testing.games import PlayedGame, check_chance, check_payoffs, check_returns, checked_spec

NONSENSE = "~ no such move ~"
GUESSES = ("[1]", "[pass]", "[accept]", "[a1]", "[up]", "[check]", "[0 0]", "Hello.")
MAX_GUESSES = 8
CLOSE_LOOK_PLIES = 8
"""Every ply is looked at closely up to here, and after it one in `CLOSE_LOOK_EVERY`."""
CLOSE_LOOK_EVERY = 16

_BRACKETED = re.compile(r"\[[^\[\]\n]{1,40}\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSnapshot:
    """All that can be asked of a position."""

    acting: int | None
    news: str
    moves: tuple[str, ...] | None
    returns: tuple[float, ...]
    text: str


def check_text_game(
    game: TextGame, *, games: int = 5, seed: int = 0, max_plies: int = 200, guesses: Sequence[str] = GUESSES
) -> None:
    """Check that a text game keeps the promises of the protocol; raise `ConformanceError` naming the one it breaks.

    Games are left after `max_plies` moves. `guesses` are moves to try where the game cannot list them, beside those
    that stand in brackets in its news.
    """
    with checked_spec(game) as spec:
        require(isinstance(game.blocks, bool), "blocks is True or False")
        require(spec.actions == 0 and spec.observation_shape == (), "spec of a text game has no actions and no tensor")
        require(not spec.is_simultaneous, "seats of a text game act one at a time, so spec.is_simultaneous is False")
        for number in range(games):
            played = _play(game, spec, seed + number, max_plies, guesses)
            _repeat_beside_another(game, spec, played, guesses)
        check_chance(spec, lambda shift: _look(_start(game, seed + shift), spec))


def _start(game: TextGame, seed: int) -> TextPosition:
    position = call(f"start({seed})", game.start, seed)
    lacking = ", ".join(f"{name}()" for name in missing_methods(position, TextPosition))
    require(not lacking, f"start() gives a {type(position).__name__}, which lacks {lacking}")
    return position


def _play(game: TextGame, spec: GameSpec, seed: int, max_plies: int, guesses: Sequence[str]) -> PlayedGame:
    rng = Random(seed)
    position = _start(game, seed)
    played = PlayedGame(seed=seed, moves=[], snapshots={})
    while (seat := _acting(position, spec)) is not None and len(played.moves) < max_plies:
        ply = len(played.moves)
        require(ply < spec.max_length, f"a game ends within max_length ({spec.max_length}) plies")
        if ply < CLOSE_LOOK_PLIES or ply % CLOSE_LOOK_EVERY == 0:
            played.snapshots[ply] = _look(position, spec)
            _check_refusals(position, spec, played.snapshots[ply])
        move = _move(position, spec, seat, guesses, rng)
        if move is None:
            return played
        played.moves.append(move)
    played.snapshots[len(played.moves)] = _look(position, spec)
    if position.acting() is None:
        end = played.snapshots[len(played.moves)]
        check_payoffs(end.returns, spec)
        require(not _is_accepted(position, 0, NONSENSE), "act() after the end is refused with InvalidMove")
        require(_look(position, spec) == end, "a finished game stays as it is")
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


def _repeat_beside_another(game: TextGame, spec: GameSpec, played: PlayedGame, guesses: Sequence[str]) -> None:
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


def _look(position: TextPosition, spec: GameSpec) -> TextSnapshot:
    seat = _acting(position, spec)
    returns = check_returns(position, spec)
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
