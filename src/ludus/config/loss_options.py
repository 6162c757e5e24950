"""Which options each loss takes in `objective:`. The losses themselves are in `ludus.train`; a test keeps both equal.

To add one: the keyword argument of the loss function, and its row here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOption:
    """What one option may be: a number above a bound, or one of some words."""

    above: float = 0.0
    may_be_null: bool = False
    words: tuple[str, ...] = ()

    def accepts(self, value: object) -> bool:
        """Whether a value may stand here."""
        if value is None:
            return self.may_be_null
        if self.words:
            return value in self.words
        return isinstance(value, int | float) and not isinstance(value, bool) and value > self.above

    @property
    def expected(self) -> str:
        """The same in words."""
        if self.words:
            return f"{', '.join(self.words[:-1])} or {self.words[-1]}"
        return f"a number > {self.above:g}" + (" or null" if self.may_be_null else "")


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
        "clip_low": LossOption(),
        "clip_high": LossOption(),
        "dual_clip": LossOption(above=1.0, may_be_null=True),
        "level": _LEVEL,
        **_IMPORTANCE,
    },
    "reinforce": _IMPORTANCE,
    "sft": {},
    "value": {"clip": _LIMIT},
    "entropy": {},
    "kl": {
        "estimator": LossOption(words=("k1", "k2", "k3")),
        "cap": _LIMIT,
        "reference": LossOption(words=("behaviour", "base")),
        "importance": LossOption(words=("none", "ratio")),
    },
}
