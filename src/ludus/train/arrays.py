"""The few array operations that the array API standard lacks, for NumPy, JAX and torch alike.

Invariant: a framework is recognised by the arrays it is handed, and never imported here; whoever holds a torch tensor
has loaded torch. To add an operation, write it with `namespace(...)` and test it on all three.
"""

from __future__ import annotations

import sys
from typing import Any

from array_api_compat import array_namespace, is_jax_array, is_torch_array

Array = Any
"""An array of any framework that follows the array API standard."""

ILLEGAL_LOGIT = -1e9
"""Logit of an action that may not be taken: its probability is exactly 0, and `0 * log 0` stays finite."""


def namespace(*arrays: Array) -> Any:
    """The array API namespace that the arrays share; `None` is passed over."""
    return array_namespace(*(array for array in arrays if array is not None))


def stop_gradient(x: Array) -> Array:
    """The same numbers, as a constant."""
    if is_jax_array(x):
        return sys.modules["jax"].lax.stop_gradient(x)
    return x.detach() if is_torch_array(x) else x


def log_softmax(logits: Array) -> Array:
    """Log-probabilities over the last axis, `[..., A]`."""
    xp = namespace(logits)
    shifted = logits - stop_gradient(xp.max(logits, axis=-1, keepdims=True))
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def masked_log_softmax(logits: Array, legal: Array | None) -> Array:
    """Log-probabilities over the legal actions, `[..., A]`; illegal ones get about `ILLEGAL_LOGIT`."""
    if legal is None:
        return log_softmax(logits)
    xp = namespace(logits, legal)
    return log_softmax(xp.where(legal, logits, xp.full_like(logits, ILLEGAL_LOGIT)))


def take_last(x: Array, index: Array) -> Array:
    """`x[..., index[...]]`: one element of the last axis for each leading position."""
    xp = namespace(x, index)
    return xp.take_along_axis(x, index[..., None], axis=-1)[..., 0]


def clamp(x: Array, low: float | None, high: float | None) -> Array:
    """`x` within `[low, high]`; None is no bound."""
    return x if low is None and high is None else namespace(x).clip(x, low, high)


def as_float(condition: Array, like: Array) -> Array:
    """A boolean array as 0 and 1 in the dtype of another."""
    return namespace(condition, like).astype(condition, like.dtype)
