"""Advantages over `[T, N]` rollouts in which seats take turns, on the device, in float32.

Row t is the decision of `seat[t, n]` in game n. Two ways to look at it:

    seat        each seat's own decisions form its chain: any number of players, general-sum, any order of play. What a
                seat gets while others move is added to its latest decision. Teams that share rewards may be given as
                seats (one chain for a team), or kept apart (each member its own chain with the same rewards).
    alternate   two players, zero-sum: every position continues the previous one, and counts with its sign turned when
                the other side is to move. Half the delay of `seat`, so less variance. The same side moving twice keeps
                the sign.

`done[t, n]` ends an episode after row t; nothing flows back over it. Not covered: bootstrapping an episode that was
truncated inside the rollout (it counts as ended).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ludus.config import AdvantageConfig
from ludus.errors import ConfigError


def gae_on_device(
    *,
    rewards: jax.Array,
    value: jax.Array,
    seat: jax.Array,
    done: jax.Array,
    last_value: jax.Array,
    last_seat: jax.Array,
    config: AdvantageConfig | None,
    alternate: bool,
) -> tuple[jax.Array, jax.Array]:
    """Advantage and target, `[T, N]` each, by the config's kind. Traceable.

    Args:
        rewards: `[T, N, P]`, what every seat gets after row t.
        value: `[T, N]`, the estimate of the seat that acts.
        seat: `[T, N]`, who acts.
        done: `[T, N]`.
        last_value: `[N]`, the estimate of `last_seat` at the position after the last row; or `[N, P]`, of every seat.
            With `[N]`, seats that are not to move there count on their own latest estimate.
        last_seat: `[N]`, who is to move after the last row.
        config: kind and coefficients. `monte_carlo` uses values at the cut only; on-policy, `vtrace` is `gae`.
        alternate: which of the two ways.
    """
    config = config or AdvantageConfig()
    if config.kind not in ("gae", "monte_carlo", "vtrace"):
        raise ConfigError(f"train.algorithm.advantage.kind: {config.kind} needs whole episodes; write topology: split")
    is_monte_carlo = config.kind == "monte_carlo"
    baseline = jnp.zeros_like(value) if is_monte_carlo else value
    chain = _alternate if alternate else _by_seat
    gamma, lam = config.gamma, 1.0 if is_monte_carlo else config.lam
    rows = (rewards, value, baseline, seat, done)
    return chain(rows, last_value, last_seat, gamma, gamma * lam)


def _alternate(
    rows: Any, last_value: jax.Array, last_seat: jax.Array, gamma: float, decay: float
) -> tuple[jax.Array, jax.Array]:
    rewards, _, baseline, seat, done = rows
    if last_value.ndim == 2:
        last_value = _of_seat(last_value, last_seat)
    following = jnp.concatenate([seat[1:], last_seat[None].astype(seat.dtype)])
    sign = jnp.where(seat == following, 1.0, -1.0) * (1.0 - done)
    next_value = jnp.concatenate([baseline[1:], last_value[None]])
    difference = _of_seat(rewards, seat) + gamma * sign * next_value - baseline

    def step(following: jax.Array, row: Any) -> tuple[jax.Array, jax.Array]:
        difference, sign = row
        advantage = difference + decay * sign * following
        return advantage, advantage

    _, advantage = lax.scan(step, jnp.zeros_like(last_value), (difference, sign), reverse=True)
    return advantage, baseline + advantage


def _by_seat(
    rows: Any, last_value: jax.Array, last_seat: jax.Array, gamma: float, decay: float
) -> tuple[jax.Array, jax.Array]:
    rewards = rows[0]
    players = rewards.shape[-1]
    zeros = jnp.zeros(rewards.shape[1:], jnp.float32)
    if last_value.ndim == 2:
        next_value, known = last_value, jnp.ones(zeros.shape, bool)
    else:
        known = jnp.arange(players) == last_seat[:, None]
        next_value = jnp.where(known, last_value[:, None], 0.0)

    def step(carry: Any, row: Any) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        pending, following, next_value, known = carry
        reward, value, baseline, seat, done = row
        goes_on = 1.0 - done[:, None]
        pending = pending * goes_on + reward
        known = known | done[:, None].astype(bool)
        acts = jnp.arange(players) == seat[:, None]
        ahead = jnp.where(_of_seat(known, seat), _of_seat(next_value * goes_on, seat), value)
        difference = _of_seat(pending, seat) + gamma * ahead - baseline
        advantage = difference + decay * _of_seat(following * goes_on, seat)
        carry = (
            jnp.where(acts, 0.0, pending),
            jnp.where(acts, advantage[:, None], following * goes_on),
            jnp.where(acts, baseline[:, None], next_value * goes_on),
            known | acts,
        )
        return carry, (advantage, baseline + advantage)

    _, credit = lax.scan(step, (zeros, zeros, next_value, known), rows, reverse=True)
    advantage, target = credit
    return advantage, target


def _of_seat(x: jax.Array, seat: jax.Array) -> jax.Array:
    """`x[..., seat]`: the acting seat's entry of the last axis."""
    return jnp.take_along_axis(x, seat[..., None], axis=-1)[..., 0]
