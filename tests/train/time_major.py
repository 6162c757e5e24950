"""The oracle of `ludus.train.device_advantages`: the same advantages in NumPy and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.config import AdvantageConfig

Floats = NDArray[np.float64]


def gae_time_major(
    *,
    rewards: NDArray[Any],
    value: NDArray[Any],
    seat: NDArray[Any],
    done: NDArray[Any],
    last_value: NDArray[Any],
    last_seat: NDArray[Any],
    config: AdvantageConfig,
    alternate: bool,
) -> tuple[Floats, Floats]:
    value = np.asarray(value, np.float64)
    done = np.asarray(done, bool)
    baseline = np.zeros_like(value) if config.kind == "monte_carlo" else value
    lam = 1.0 if config.kind == "monte_carlo" else config.lam
    chain = _alternate if alternate else _by_seat
    return chain(
        np.asarray(rewards, np.float64),
        value,
        baseline,
        np.asarray(seat),
        done,
        np.asarray(last_value, np.float64),
        np.asarray(last_seat),
        config.gamma,
        lam,
    )


def _alternate(
    rewards: Floats,
    value: Floats,
    baseline: Floats,
    seat: NDArray[Any],
    done: NDArray[np.bool_],
    last_value: Floats,
    last_seat: NDArray[Any],
    gamma: float,
    lam: float,
) -> tuple[Floats, Floats]:
    games = np.arange(value.shape[1])
    advantage, target = np.empty_like(value), np.empty_like(value)
    next_value = last_value if last_value.ndim == 1 else last_value[games, last_seat]
    next_correction, next_seat = np.zeros_like(next_value), last_seat
    for t in reversed(range(len(value))):
        sign = np.where(seat[t] == next_seat, 1.0, -1.0) * ~done[t]
        difference = rewards[t, games, seat[t]] + gamma * sign * next_value - baseline[t]
        lookahead = gamma * lam * sign * next_correction
        advantage[t] = difference + lookahead
        next_correction = advantage[t]
        target[t] = baseline[t] + next_correction
        next_value, next_seat = baseline[t], seat[t]
    return advantage, target


def _by_seat(
    rewards: Floats,
    value: Floats,
    baseline: Floats,
    seat: NDArray[Any],
    done: NDArray[np.bool_],
    last_value: Floats,
    last_seat: NDArray[Any],
    gamma: float,
    lam: float,
) -> tuple[Floats, Floats]:
    games = np.arange(value.shape[1])
    advantage, target = np.empty_like(value), np.empty_like(value)
    shape = rewards.shape[1:]
    pending, correction = np.zeros(shape), np.zeros(shape)
    # What is known of each seat's next value: not yet, for those who do not move again before the cut.
    next_value, known = np.zeros(shape), np.zeros(shape, bool)
    if last_value.ndim == 2:
        next_value[:], known[:] = last_value, True
    else:
        next_value[games, last_seat], known[games, last_seat] = last_value, True
    for t in reversed(range(len(value))):
        ended = done[t][:, None]
        pending, correction, next_value = (np.where(ended, 0.0, x) for x in (pending, correction, next_value))
        known = known | ended
        pending = pending + rewards[t]
        at = (games, seat[t])
        ahead = np.where(known[at], next_value[at], value[t])
        difference = pending[at] + gamma * ahead - baseline[t]
        lookahead = gamma * lam * correction[at]
        advantage[t] = difference + lookahead
        correction[at] = advantage[t]
        target[t] = baseline[t] + correction[at]
        next_value[at], known[at], pending[at] = baseline[t], True, 0.0
    return advantage, target
