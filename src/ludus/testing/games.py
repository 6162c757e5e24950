"""`check_game`: plays a game at random and checks every promise of `ludus.games.protocol`.

Covered: spec, legal moves, observations, returns, text, refusals, repetition from the seed, independence of positions.
Not covered: whether the rules are right; compare with another implementation for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, isnan
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ludus.games.answers import read_returns
from ludus.games.missing_methods import missing_methods
from ludus.games.protocol import Game, GameSpec, Position, StatePosition, TextGame, TextPosition
from ludus.testing.conformance import ConformanceError, call, require, require_refusal

CLOSE_LOOK_PLIES = 12
"""Every ply is looked at closely up to here, and after it one in `CLOSE_LOOK_EVERY`."""
CLOSE_LOOK_EVERY = 32
MAX_NAMED_ACTIONS = 3
TOLERANCE = 1e-5

Moves = dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedGame:
    """What happened in one game of either kind: enough to play it again and compare."""

    seed: int
    moves: list[Any]
    snapshots: dict[int, Any]
    """By the number of plies before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a position shows; two equal positions have equal snapshots."""

    acting: tuple[int, ...]
    legal: tuple[tuple[int, ...], ...]
    """Of each acting seat."""
    observations: tuple[bytes, ...]
    """Of every seat; none when the game is over."""
    state: bytes
    """The whole of it, where the game has such a thing."""
    returns: tuple[float, ...]
    texts: tuple[str, ...]


def check_game(game: Game, *, games: int = 20, seed: int = 0) -> None:
    """Check that a game keeps the promises of the protocol; raise `ConformanceError` naming the one it breaks."""
    with checked_spec(game) as spec:
        require(spec.actions >= 1, "spec has at least one action")
        require(all(size >= 1 for size in spec.observation_shape), "spec.observation_shape has positive sizes")
        require(all(size >= 1 for size in spec.state_shape), "spec.state_shape has positive sizes")
        for number in range(games):
            played = _play(game, spec, seed + number)
            _repeat_beside_another(game, spec, played)
        check_chance(spec, lambda shift: take_snapshot(_start(game, seed + shift), spec))


@contextmanager
def checked_spec(game: Game | TextGame) -> Iterator[GameSpec]:
    """The spec of a game, after what every spec promises; promises that are broken inside are named after the game."""
    lacking = [name for name in ("spec", "start") if not hasattr(game, name)]
    require(not lacking, f"{type(game).__name__} lacks {' and '.join(lacking)}")
    spec: object = call("spec", lambda: game.spec)
    if not isinstance(spec, GameSpec):
        raise ConformanceError(f"{type(game).__name__}: spec is a GameSpec; got {type(spec).__name__}")
    try:
        require(bool(spec.key), "spec has a key")
        require(game.spec == spec, "spec is constant")
        require(spec.players >= 1, "spec has at least one player")
        require(spec.max_length >= 1, "spec.max_length is at least 1")
        is_range = spec.min_return <= spec.max_return and not isnan(spec.min_return) and not isnan(spec.max_return)
        require(is_range, "spec.min_return is at most spec.max_return")
        require(len(spec.teams) in (0, spec.players), "spec.teams is empty or names a team for each seat")
        require(not (spec.is_zero_sum and spec.players == 1), "a game for one player is not zero-sum")
        yield spec
    except ConformanceError as error:
        raise ConformanceError(f"{spec.key}: {error}") from error


def check_returns(position: Position | TextPosition, spec: GameSpec) -> tuple[float, ...]:
    """What a position of a game pays, at any time."""
    values = call("the position", read_returns, position, spec.players)
    require(all(isfinite(value) for value in values), f"returns() are finite; got {values}")
    return values


def check_payoffs(returns: Sequence[float], spec: GameSpec) -> None:
    """What a finished game has paid."""
    scale = max(1.0, *(abs(value) for value in returns))
    low, high = spec.min_return - TOLERANCE * scale, spec.max_return + TOLERANCE * scale
    within = all(low <= value <= high for value in returns)
    require(within, f"returns lie within [{spec.min_return}, {spec.max_return}]; got {returns}")
    balanced = not spec.is_zero_sum or abs(sum(returns)) <= TOLERANCE * scale
    require(balanced, f"returns of a zero-sum game sum to 0; got {returns}")


def check_chance(spec: GameSpec, start: Callable[[int], object]) -> None:
    """That the seed matters only with chance; `start` takes a snapshot of the beginning with another seed."""
    if not spec.has_chance:
        starts = [start(shift) for shift in range(5)]
        require(all(one == starts[0] for one in starts), "a game without chance starts the same with every seed")


def _start(game: Game, seed: int) -> Position:
    position = call(f"start({seed})", game.start, seed)
    lacking = ", ".join(f"{name}()" for name in missing_methods(position, Position))
    require(not lacking, f"start() gives a {type(position).__name__}, which lacks {lacking}")
    return position


def _play(game: Game, spec: GameSpec, seed: int) -> PlayedGame:
    rng = np.random.default_rng(seed)
    position = _start(game, seed)
    played = PlayedGame(seed=seed, moves=[], snapshots={})
    while check_acting(position, spec):
        ply = len(played.moves)
        require(ply < spec.max_length, f"a game ends within max_length ({spec.max_length}) plies")
        if ply < CLOSE_LOOK_PLIES or ply % CLOSE_LOOK_EVERY == 0:
            played.snapshots[ply] = take_snapshot(position, spec)
            _check_refusals(position, spec, played.snapshots[ply])
        moves = _choose(position, spec, rng)
        call(f"act({moves})", position.act, moves)
        played.moves.append(moves)
    require(bool(played.moves), "a game has at least one decision")
    played.snapshots[len(played.moves)] = _check_end(position, spec)
    return played


def _choose(position: Position, spec: GameSpec, rng: np.random.Generator) -> Moves:
    moves = {}
    for seat in check_acting(position, spec):
        check_observation(position, spec, seat)
        legal = check_legal(position, spec, seat)
        moves[seat] = int(legal[rng.integers(len(legal))])
    return moves


def _check_refusals(position: Position, spec: GameSpec, before: Snapshot) -> None:
    """Illegal moves are refused with EnvError and change nothing."""
    legal = dict(zip(before.acting, before.legal, strict=True))
    moves = {seat: actions[0] for seat, actions in legal.items()}
    seat = before.acting[0]
    outside = next((action for action in range(spec.actions) if action not in set(legal[seat])), spec.actions)
    refused = [{**moves, seat: action} for action in (outside, spec.actions, -1)]
    refused.append({other: action for other, action in moves.items() if other != seat})
    refused += [{**moves, idle: 0} for idle in range(spec.players + 1) if idle not in moves][:1]
    for bad in refused:
        require_refusal(f"act({bad}) when {legal} is legal", position.act, bad)
        require(take_snapshot(position, spec) == before, f"a refused act({bad}) changes nothing")


def _check_end(position: Position, spec: GameSpec) -> Snapshot:
    end = take_snapshot(position, spec)
    check_payoffs(end.returns, spec)
    paid: dict[int, float] = {}
    for team, value in zip(spec.teams if spec.teams_share_rewards else (), end.returns, strict=False):
        require(paid.setdefault(team, value) == value, f"seats of one team get the same; got {end.returns}")
    require_refusal("act() after the end", position.act, {0: 0})
    require(take_snapshot(position, spec) == end, "a finished game stays as it is")
    return end


def _repeat_beside_another(game: Game, spec: GameSpec, played: PlayedGame) -> None:
    """The same seed and moves give the same game, also while another game is played."""
    rng = np.random.default_rng(played.seed + 1)
    position, other = _start(game, played.seed), _start(game, played.seed + 1)
    for ply in range(len(played.moves) + 1):
        if ply in played.snapshots:
            is_same = take_snapshot(position, spec) == played.snapshots[ply]
            require(is_same, f"the same seed and actions give the same game, beside others too; ply {ply} differs")
        if ply < len(played.moves):
            call(f"act({played.moves[ply]})", position.act, played.moves[ply])
        if check_acting(other, spec):
            call("act() in another game", other.act, _choose(other, spec, rng))


def take_snapshot(position: Position, spec: GameSpec) -> Snapshot:
    """Look at everything; what is looked at is checked."""
    acting = check_acting(position, spec)
    legal = tuple(check_legal(position, spec, seat) for seat in acting)
    seats = range(spec.players) if acting else ()
    observations = tuple(check_observation(position, spec, seat).tobytes() for seat in seats)
    returns = check_returns(position, spec)
    is_early = any(returns) and acting and not spec.rewards_every_move
    require(not is_early, f"returns() are 0 before the end unless rewards_every_move; got {returns}")
    return Snapshot(
        acting=acting,
        legal=legal,
        observations=observations,
        state=_check_state(position, spec).tobytes(),
        returns=returns,
        texts=_check_texts(position, spec, dict(zip(acting, legal, strict=True))),
    )


def check_acting(position: Position, spec: GameSpec) -> tuple[int, ...]:
    """The seats that act now."""
    acting = tuple(call("acting()", position.acting))
    is_sound = len(set(acting)) == len(acting) and all(0 <= seat < spec.players for seat in acting)
    require(is_sound, f"acting() gives seats of 0..{spec.players - 1}, each once; got {acting}")
    require(spec.is_simultaneous or len(acting) <= 1, f"several seats act ({acting}) but is_simultaneous is False")
    return acting


def check_legal(position: Position, spec: GameSpec, seat: int) -> tuple[int, ...]:
    """The legal actions of an acting seat."""
    legal = tuple(call(f"legal({seat})", position.legal, seat))
    require(bool(legal), f"legal({seat}) is never empty for an acting seat")
    ascending = all(first < second for first, second in pairwise(legal))
    require(ascending, f"legal({seat}) ascends without repetition; got {legal[:20]}")
    in_range = legal[0] >= 0 and legal[-1] < spec.actions
    require(in_range, f"legal({seat}) lies within 0..{spec.actions - 1}; got {legal[0]}..{legal[-1]}")
    return legal


def check_observation(position: Position, spec: GameSpec, seat: int) -> NDArray[np.float32]:
    """What the seat sees, looked at twice through windows of a larger array."""
    return _look_twice(f"observe({seat}, out)", lambda out: position.observe(seat, out), spec.observation_shape)


def _check_state(position: Position, spec: GameSpec) -> NDArray[np.float32]:
    """The whole state, where the game has one."""
    if not spec.state_shape:
        return np.zeros((), np.float32)
    require(hasattr(position, "state"), "a position of a game with a state_shape has a method state(out)")
    return _look_twice("state(out)", cast("StatePosition", position).state, spec.state_shape)


def _look_twice(what: str, look: Callable[[NDArray[np.float32]], None], shape: tuple[int, ...]) -> NDArray[np.float32]:
    seen = []
    for blank in (np.float32(np.nan), np.float32(12345.0)):
        rows = np.full((3, *shape), blank, np.float32)
        if shape:
            call(what, look, rows[1])
        untouched = np.array_equal(rows[[0, 2]], np.full_like(rows[[0, 2]], blank), equal_nan=True)
        require(untouched, f"{what} writes to out alone")
        seen.append(rows[1].copy() if shape else np.zeros((), np.float32))
    require(bool(np.isfinite(seen[0]).all()), f"{what} fills all of out with finite numbers")
    require(np.array_equal(seen[0], seen[1]), f"{what} fills all of out, from the position alone")
    return seen[0]


def _check_texts(position: Position, spec: GameSpec, legal: dict[int, tuple[int, ...]]) -> tuple[str, ...]:
    # `object`, because the game may be written without types.
    texts: list[object] = [call(f"text({seat})", position.text, seat) for seat in (None, *range(spec.players))]
    for seat, actions in legal.items():
        named = actions[:MAX_NAMED_ACTIONS]
        texts += [call(f"action_text({seat}, {action})", position.action_text, seat, action) for action in named]
    shown = tuple(text for text in texts if isinstance(text, str) and text.strip())
    require(len(shown) == len(texts), "text() and action_text() give non-empty strings")
    return shown
