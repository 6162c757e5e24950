"""Everything that can be seen of a position at one moment, checked while it is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ludus.games.protocol import GameSpec, Position, StatePosition
from ludus.testing.conformance import call, require

MAX_NAMED_ACTIONS = 3


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

    @property
    def is_over(self) -> bool:
        """Whether nobody acts any more."""
        return not self.acting


def take_snapshot(position: Position, spec: GameSpec) -> Snapshot:
    """Look at everything; what is looked at is checked."""
    acting = check_acting(position, spec)
    legal = tuple(check_legal(position, spec, seat) for seat in acting)
    seats = range(spec.players) if acting else ()
    observations = tuple(check_observation(position, spec, seat).tobytes() for seat in seats)
    return Snapshot(
        acting=acting,
        legal=legal,
        observations=observations,
        state=_check_state(position, spec).tobytes(),
        returns=_check_returns(position, spec, is_over=not acting),
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


def _check_returns(position: Position, spec: GameSpec, *, is_over: bool) -> tuple[float, ...]:
    returns = tuple(float(value) for value in call("returns()", position.returns))
    require(len(returns) == spec.players, f"returns() has one number per seat; got {len(returns)} for {spec.players}")
    require(all(isfinite(value) for value in returns), f"returns() are finite; got {returns}")
    is_early = any(returns) and not is_over and not spec.rewards_every_move
    require(not is_early, f"returns() are 0 before the end unless rewards_every_move; got {returns}")
    return returns


def _check_texts(position: Position, spec: GameSpec, legal: dict[int, tuple[int, ...]]) -> tuple[str, ...]:
    # `object`, because the game may be written without types.
    texts: list[object] = [call(f"text({seat})", position.text, seat) for seat in (None, *range(spec.players))]
    for seat, actions in legal.items():
        named = actions[:MAX_NAMED_ACTIONS]
        texts += [call(f"action_text({seat}, {action})", position.action_text, seat, action) for action in named]
    shown = tuple(text for text in texts if isinstance(text, str) and text.strip())
    require(len(shown) == len(texts), "text() and action_text() give non-empty strings")
    return shown
