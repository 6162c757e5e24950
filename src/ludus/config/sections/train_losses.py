"""Which options and sources each loss takes in `objective:`. The losses are in `ludus.train`; a test keeps both equal.

To add one: the keyword argument of the loss function, and its row here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOption:
    """What one option may be: a number within bounds, or one of some words."""

    above: float = 0.0
    at_least: float | None = None
    """When given, it counts instead of `above`."""
    below: float = math.inf
    may_be_null: bool = False
    words: tuple[str, ...] = ()
    is_free: bool = False
    """Whether it may be anything."""

    def accepts(self, value: object) -> bool:
        """Whether a value may stand here."""
        if self.is_free:
            return True
        if value is None:
            return self.may_be_null
        if self.words:
            return value in self.words
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        is_enough = value > self.above if self.at_least is None else value >= self.at_least
        return is_enough and value < self.below

    @property
    def expected(self) -> str:
        """The same in words."""
        if self.words:
            return f"{', '.join(self.words[:-1])} or {self.words[-1]}"
        low = f"> {self.above:g}" if self.at_least is None else f">= {self.at_least:g}"
        bounds = [low] * math.isfinite(self.above) + [f"< {self.below:g}"] * math.isfinite(self.below)
        return " ".join(["a number", " and ".join(bounds)]).strip() + (" or null" if self.may_be_null else "")


_LIMIT = LossOption(may_be_null=True)
_LEVEL = LossOption(words=("token", "sequence"))
_IMPORTANCE = {
    "importance": LossOption(words=("none", "truncate", "mask")),
    "importance_level": _LEVEL,
    "importance_low": _LIMIT,
    "importance_high": _LIMIT,
}
"""How tokens count that were not sampled by quite the weights that are trained."""

LOSS_OPTIONS: dict[str, dict[str, LossOption]] = {
    "ppo_clip": {
        "clip_low": _LIMIT,
        "clip_high": _LIMIT,
        "dual_clip": LossOption(above=1.0, may_be_null=True),
        "level": _LEVEL,
        **_IMPORTANCE,
    },
    "reinforce": _IMPORTANCE,
    "cispo": {"clip_low": _LIMIT, "clip_high": _LIMIT, **_IMPORTANCE},
    "sapo": {"tau_positive": LossOption(), "tau_negative": LossOption(), **_IMPORTANCE},
    "topr": {"threshold": LossOption(above=-math.inf), "level": _LEVEL},
    "opmd": {"tau": LossOption()},
    "sppo": {"epsilon": LossOption()},
    "sft": {
        "weighting": LossOption(words=("none", "is", "phi")),
        "cutoff": LossOption(below=1.0, may_be_null=True),
    },
    "dpo": {"beta": LossOption(), "label_smoothing": LossOption(at_least=0.0, below=0.5)},
    "value": {"clip": _LIMIT},
    "entropy": {},
    "kl": {
        "estimator": LossOption(words=("k1", "k2", "k3")),
        "cap": _LIMIT,
        "reference": LossOption(words=("behaviour", "base")),
        "importance": LossOption(words=("none", "ratio")),
    },
}

LOSS_SOURCES: dict[str, tuple[str, ...]] = {
    "sft": ("on_policy", "expert", "any"),
    "entropy": ("on_policy", "expert", "any"),
    "kl": ("on_policy", "expert", "any"),
    "dpo": ("pairs",),
}
"""Where a loss can learn from. All others need advantages and behaviour log-probabilities: on-policy rows."""
