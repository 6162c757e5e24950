"""What a loss is handed, and what it gives back. Nothing here depends on a framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ludus.train.arrays import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What a loss may ask for, all of one shape, `[B]` or `[B, T]`, but for three columns with a number per row, `[B]`.

    Only `logp`, `value` and `entropy` carry a gradient.
    """

    mask: Array
    """Weight of each element; 0 keeps it out of every mean."""
    logp: Array = None
    """Log-probability of what was done, under the policy being trained."""
    old_logp: Array = None
    """The same under the policy that did it, as whoever played reported it."""
    start_logp: Array = None
    """The same under the weights that the update began with, as the learner computes it. Default: `old_logp`."""
    ref_logp: Array = None
    """The same under the model before any training."""
    advantage: Array = None
    value: Array = None
    old_value: Array = None
    target: Array = None
    """What `value` should be."""
    entropy: Array = None
    """Entropy of the policy at each element."""
    source: Array = None
    """Per row: where it comes from, as a code of `ludus.train.sources`. Default: all are on-policy."""
    partner: Array = None
    """Per row: the row that holds the other answer of its pair; its own place where there is none."""
    chosen: Array = None
    """Per row: whether it is the answer of its pair that was preferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """A loss per element, and other things worth averaging the same way."""

    loss: Array
    stats: Mapping[str, Array] = field(default_factory=dict)


Loss = Callable[..., Elements]
"""A function of `LossInputs`, with its options as keywords."""
