"""From elements to one number: how a loss over `[B]` decisions or `[B, T]` tokens is averaged.

Each way is a total and a normaliser. Both are sums over rows, so a minibatch may be cut into parts: the sum of the
parts' totals over the normaliser of the whole is exactly the whole's mean (a mean of the parts' means is not).

Rows whose mask is empty count for nothing, not even in the number of rows, as in verl. Elements with mask 0 may hold
anything, NaN included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ludus.config import TrainConfig
from ludus.errors import ConfigError
from ludus.train.arrays import Array, as_float, namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """`total(x, mask) / normaliser(mask)` is the mean. `mask` holds weights, of the shape and dtype of `x`."""

    total: Callable[[Array, Array], Array]
    normaliser: Callable[[Array], Array]

    def __call__(self, x: Array, mask: Array) -> Array:
        """The mean over one batch; 0 when every mask is empty."""
        return self.total(x, mask) / at_least_something(self.normaliser(mask))


def at_least_something(normaliser: Array) -> Array:
    """The normaliser, or 1 where it is 0: the total is 0 there too."""
    xp = namespace(normaliser)
    return xp.where(normaliser > 0, normaliser, xp.ones_like(normaliser))


def _total(x: Array, mask: Array) -> Array:
    xp = namespace(x, mask)
    return xp.sum(xp.where(mask > 0, x, xp.zeros_like(x)) * mask)


def _row_means(x: Array, mask: Array) -> Array:
    xp = namespace(x, mask)
    if x.ndim == 1:
        return _total(x, as_float(mask > 0, x))
    kept = xp.where(mask > 0, x, xp.zeros_like(x)) * mask
    return xp.sum(xp.sum(kept, axis=-1) / at_least_something(xp.sum(mask, axis=-1)))


def _rows(mask: Array) -> Array:
    xp = namespace(mask)
    present = mask > 0 if mask.ndim == 1 else xp.any(mask > 0, axis=-1)
    return xp.sum(as_float(present, mask))


def _sum(mask: Array) -> Array:
    return namespace(mask).sum(mask)


token_mean = Aggregation(total=_total, normaliser=_sum)
"""Every element counts alike: `sum(m x) / sum(m)`."""

sequence_mean_token_mean = Aggregation(total=_row_means, normaliser=_rows)
"""Every row counts alike: the mean over rows of each row's mean."""

sequence_mean_token_sum = Aggregation(total=_total, normaliser=_rows)
"""The mean over rows of each row's sum."""


def constant_norm(length: float) -> Aggregation:
    """The mean over rows of each row's sum, divided by a constant (Dr. GRPO: the longest allowed length)."""
    return Aggregation(total=_total, normaliser=lambda mask: _rows(mask) * length)


AGGREGATIONS: dict[str, Aggregation] = {
    "token_mean": token_mean,
    "sequence_mean_token_mean": sequence_mean_token_mean,
    "sequence_mean_token_sum": sequence_mean_token_sum,
}
"""By name; `constant_norm` needs a length and is made on the spot."""


def build_aggregation(train: TrainConfig) -> Aggregation:
    """The way that a config asks for."""
    if train.aggregation != "constant_norm":
        return AGGREGATIONS[train.aggregation]
    if train.aggregation_length is None:
        raise ConfigError(
            "train.aggregation_length: constant_norm divides by it; write the tokens that a sequence may have at most"
        )
    return constant_norm(float(train.aggregation_length))
