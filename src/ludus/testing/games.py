"""`check_game`: plays a game at random and checks every promise of `ludus.games.protocol`.

Covered: spec, legal moves, observations, returns, text, refusals, repetition from the seed, independence of positions.
Not covered: whether the rules are right; compare with another implementation for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np

from ludus.games.protocol import Game, GameSpec, Position
from ludus.testing.conformance import ConformanceError, call, require, require_refusal
from ludus.testing.snapshot import Snapshot, check_acting, check_legal, check_observation, take_snapshot

CLOSE_LOOK_PLIES = 12
"""Every ply is looked at closely up to here, and after it one in `CLOSE_LOOK_EVERY`."""
CLOSE_LOOK_EVERY = 32
TOLERANCE = 1e-5

Moves = dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedGame:
    """What happened in one game: enough to play it again and compare."""

    seed: int
    moves: list[Moves]
    snapshots: dict[int, Snapshot]
    """By the number of plies before it."""


def check_game(game: Game, *, games: int = 20, seed: int = 0) -> None:
    """Check that a game keeps the promises of the protocol; raise `ConformanceError` naming the one it breaks."""
    spec: object = call("spec", lambda: game.spec)
    if not isinstance(spec, GameSpec):
        raise ConformanceError(f"{type(game).__name__}: spec is a GameSpec; got {type(spec).__name__}")
    try:
        _check_spec(game, spec)
        for number in range(games):
            played = _play(game, spec, seed + number)
            _repeat_beside_another(game, spec, played)
        _check_seed_matters_only_with_chance(game, spec, seed)
    except ConformanceError as error:
        raise ConformanceError(f"{spec.key}: {error}") from error


def _check_spec(game: Game, spec: GameSpec) -> None:
    require(bool(spec.key), "spec has a key")
    require(game.spec == spec, "spec is constant")
    require(spec.players >= 1 and spec.actions >= 1, "spec has at least one player and one action")
    require(spec.max_length >= 1, "spec.max_length is at least 1")
    require(all(size >= 1 for size in spec.observation_shape), "spec.observation_shape has positive sizes")
    require(all(size >= 1 for size in spec.state_shape), "spec.state_shape has positive sizes")
    is_range = spec.min_return <= spec.max_return and not isnan(spec.min_return) and not isnan(spec.max_return)
    require(is_range, "spec.min_return is at most spec.max_return")
    require(len(spec.teams) in (0, spec.players), "spec.teams is empty or names a team for each seat")
    require(not (spec.is_zero_sum and spec.players == 1), "a game for one player is not zero-sum")


def _start(game: Game, seed: int) -> Position:
    position = call(f"start({seed})", game.start, seed)
    require(isinstance(position, Position), "start() gives a Position")
    return position


def _play(game: Game, spec: GameSpec, seed: int) -> PlayedGame:
    rng = np.random.default_rng(seed)
    position = _start(game, seed)
    played = PlayedGame(seed=seed, moves=[], snapshots={})
    while check_acting(position, spec):
        ply = len(played.moves)
        require(ply < spec.max_length, f"a game ends within max_length ({spec.max_length}) plies")
        if _is_looked_at_closely(ply):
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
    scale = max(1.0, *(abs(value) for value in end.returns))
    low, high = spec.min_return - TOLERANCE * scale, spec.max_return + TOLERANCE * scale
    within = all(low <= value <= high for value in end.returns)
    require(within, f"returns lie within [{spec.min_return}, {spec.max_return}]; got {end.returns}")
    balanced = not spec.is_zero_sum or abs(sum(end.returns)) <= TOLERANCE * scale
    require(balanced, f"returns of a zero-sum game sum to 0; got {end.returns}")
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


def _check_seed_matters_only_with_chance(game: Game, spec: GameSpec, seed: int) -> None:
    if spec.has_chance:
        return
    starts = [take_snapshot(_start(game, seed + shift), spec) for shift in range(5)]
    require(all(start == starts[0] for start in starts), "a game without chance starts the same with every seed")


def _is_looked_at_closely(ply: int) -> bool:
    return ply < CLOSE_LOOK_PLIES or ply % CLOSE_LOOK_EVERY == 0
