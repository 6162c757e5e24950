"""Losses of chess networks on a loader's tensors, each with its mask. All are per position; the learner averages them.

A loss gives `[B]` numbers, and `[B]` of which rows have a target. A target is missing where it is NaN, or where a
policy has no move that counts; such rows count for nothing, and the mean is over the others. Options are keyword
arguments; `config.sections.chess_losses` has the same, and a test keeps both equal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ludus.chess.networks import ChessOutputs
from ludus.config import TermConfig
from ludus.errors import ConfigError

VALUE_ROWS = ("result", "best", "played", "orig", "root", "st")
"""Rows of the values of a position; the columns are q, d and plies left."""
ILLEGAL_LOGIT = -1e9
_EPS = 1e-5


class Targets(NamedTuple):
    """What a loader gives for B positions, besides the planes."""

    policy: jax.Array
    """`[B, 1858]`: share of each move; -1 where a move is illegal."""
    values: jax.Array
    """`[B, 6, 3]`: rows of `VALUE_ROWS`; q, d and plies left; NaN where unknown."""


class Rows(NamedTuple):
    """A loss per position, and which positions it is defined for."""

    loss: jax.Array
    """`[B]`."""
    is_there: jax.Array
    """bool `[B]`; depends on the targets alone."""


def policy(
    outputs: ChessOutputs,
    targets: Targets,
    /,
    *,
    head: str = "vanilla",
    kind: str = "cross_entropy",
    illegal: str = "mask",
    temperature: float = 1.0,
    strength: float | None = None,
    alpha: float = 3.0,
    value_head: str = "winner",
    value_target: str = "st",
) -> Rows:
    """Cross-entropy (or KL) of a policy head.

    `mask`: illegal moves leave the softmax; `train_to_zero`: they are moves of target 0. `temperature`: the target is
    raised to 1 / T. With a `strength` the loss is optimistic: weighted by `sigmoid((z - strength) alpha)`, where z is
    how far the position's value lies above what `value_head` expects, in units of the error that it expects.
    """
    is_there = _has_policy(targets)
    legal = targets.policy >= 0
    share = jnp.where(legal & is_there[:, None], targets.policy, 0.0)
    # 0 ** (1 / T) has an infinite slope, and what is not a target must not reach a gradient.
    share = jnp.where(share > 0, jnp.where(share > 0, share, 1.0) ** (1.0 / temperature), 0.0)
    share = share / jnp.maximum(jnp.sum(share, axis=-1, keepdims=True), 1e-12)
    logits = outputs.policy[head]
    if illegal == "mask":
        logits = jnp.where(legal | ~is_there[:, None], logits, ILLEGAL_LOGIT)
    loss = -jnp.sum(share * jax.nn.log_softmax(logits), axis=-1)
    if kind == "kl":
        loss = loss + jnp.sum(jnp.where(share > 0, share * jnp.log(jnp.where(share > 0, share, 1.0)), 0.0), axis=-1)
    if strength is not None:
        weight, knows = _optimism(outputs, targets, value_head, value_target, strength, alpha)
        loss, is_there = loss * weight, is_there & knows
    return Rows(loss, is_there)


def value(outputs: ChessOutputs, targets: Targets, /, *, head: str = "winner", target: str = "result") -> Rows:
    """Cross-entropy of win, draw and loss."""
    wdl, is_there = wdl_target(targets, target)
    return Rows(-jnp.sum(wdl * jax.nn.log_softmax(outputs.value[head]), axis=-1), is_there)


def value_error(outputs: ChessOutputs, targets: Targets, /, *, head: str = "winner", target: str = "st") -> Rows:
    """Squared error of the squared error that a value head expects of its own W - L."""
    q, is_there = _q(targets, target)
    missed = lax.stop_gradient((_expected(outputs.value[head]) - q) ** 2)
    return Rows((_of(outputs.error, head, "error: true") - missed) ** 2, is_there)


def value_categorical(outputs: ChessOutputs, targets: Targets, /, *, head: str = "winner", target: str = "st") -> Rows:
    """Cross-entropy of the bucket of [-1, 1] that the value falls into."""
    q, is_there = _q(targets, target)
    logits = _of(outputs.categorical, head, "buckets")
    count = logits.shape[-1]
    bucket = jnp.clip(jnp.floor((q + 1.0) * 0.5 * count), 0, count - 1).astype(jnp.int32)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), bucket[:, None], axis=-1)[:, 0]
    return Rows(-picked, is_there)


def moves_left(
    outputs: ChessOutputs,
    targets: Targets,
    /,
    *,
    head: str = "main",
    target: str = "result",
    scale: float = 20.0,
    delta: float = 10.0,
) -> Rows:
    """Huber loss of the plies that are left, in units of `scale`; it is linear from `delta` plies on."""
    plies = targets.values[:, VALUE_ROWS.index(target), 2]
    is_there = jnp.isfinite(plies)
    error = jnp.abs(outputs.moves_left[head] - jnp.where(is_there, plies, 0.0)) / scale
    bound = delta / scale
    near = jnp.minimum(error, bound)
    return Rows(0.5 * near**2 + bound * (error - near), is_there)


LOSSES: dict[str, Callable[..., Rows]] = {
    "chess_policy": policy,
    "chess_value": value,
    "chess_value_error": value_error,
    "chess_value_categorical": value_categorical,
    "chess_moves_left": moves_left,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChessTerm:
    """One loss with its options, its metric's name, and its weight over the run."""

    name: str
    loss: Callable[..., Rows]
    options: dict[str, Any]
    weight: float
    weight_end: float

    def __call__(self, outputs: ChessOutputs, targets: Targets) -> Rows:
        """The loss of each position."""
        return self.loss(outputs, targets, **self.options)

    def __str__(self) -> str:
        """`chess_policy_1 (head soft)`."""
        head = self.options.get("head", inspect.signature(self.loss).parameters["head"].default)
        return f"{self.name} (head {head})"

    def known(self, targets: Targets) -> jax.Array:
        """Which positions have its target: `is_there` of the loss, without outputs."""
        options = {one.name: one.default for one in inspect.signature(self.loss).parameters.values()} | self.options
        if self.loss is policy:
            is_there = _has_policy(targets)
            return is_there if options["strength"] is None else is_there & _q(targets, options["value_target"])[1]
        if self.loss is moves_left:
            return jnp.isfinite(targets.values[:, VALUE_ROWS.index(options["target"]), 2])
        return (wdl_target if self.loss is value else _q)(targets, options["target"])[1]

    def weight_at(self, progress: jax.Array) -> jax.Array | float:
        """The weight when this share of the run is done."""
        change = self.weight_end - self.weight
        return self.weight + change * progress if change else self.weight


def build_terms(configs: tuple[TermConfig, ...]) -> tuple[ChessTerm, ...]:
    """Terms of an objective; those of one loss are told apart by their places."""
    unknown = sorted({term.loss for term in configs} - LOSSES.keys())
    if unknown:
        raise ConfigError(f"train.algorithm.objective: {', '.join(unknown)} cannot train a chess network on tensors")
    losses = [term.loss for term in configs]
    return tuple(
        ChessTerm(
            name=f"{term.loss}_{place}" if losses.count(term.loss) > 1 else term.loss,
            loss=LOSSES[term.loss],
            options=dict(term.options),
            weight=term.weight,
            weight_end=term.weight if term.weight_end is None else term.weight_end,
        )
        for place, term in enumerate(configs)
    )


def _has_policy(targets: Targets) -> jax.Array:
    has_nan = jnp.any(jnp.isnan(targets.policy), axis=-1)
    return ~has_nan & (jnp.sum(jnp.maximum(targets.policy, 0.0), axis=-1) > 0)


def _q(targets: Targets, target: str) -> tuple[jax.Array, jax.Array]:
    q = targets.values[:, VALUE_ROWS.index(target), 0]
    return jnp.where(jnp.isfinite(q), q, 0.0), jnp.isfinite(q)


def wdl_target(targets: Targets, target: str) -> tuple[jax.Array, jax.Array]:
    """Win, draw and loss `[B, 3]` of a row of values, and where they are known."""
    row = targets.values[:, VALUE_ROWS.index(target)]
    is_there = jnp.isfinite(row[:, 0]) & jnp.isfinite(row[:, 1])
    q, d = (jnp.where(is_there, row[:, column], 0.0) for column in (0, 1))
    wdl = jnp.maximum(jnp.stack([(1.0 - d + q) * 0.5, d, (1.0 - d - q) * 0.5], axis=-1), 0.0)
    return wdl / jnp.maximum(jnp.sum(wdl, axis=-1, keepdims=True), 1e-12), is_there


def _expected(logits: jax.Array) -> jax.Array:
    wdl = jax.nn.softmax(logits)
    return wdl[:, 0] - wdl[:, 2]


def _optimism(
    outputs: ChessOutputs, targets: Targets, head: str, target: str, strength: float, alpha: float
) -> tuple[jax.Array, jax.Array]:
    q, is_there = _q(targets, target)
    error = _of(outputs.error, head, "error: true")
    z = (q - _expected(outputs.value[head])) / (jnp.sqrt(error) + _EPS)
    return lax.stop_gradient(jax.nn.sigmoid((z - strength) * alpha)), is_there


def _of(heads: dict[str, jax.Array], head: str, key: str) -> jax.Array:
    if head not in heads:
        raise ConfigError(f"policy.network.heads.value.{head}: has no such output; write {key}")
    return heads[head]
