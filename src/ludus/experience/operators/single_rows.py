"""Operators that look at each row on its own: is it sound, and is its reward in range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ludus.config import RewardRangeConfig, ValidityConfig
from ludus.experience.groups import Groups
from ludus.experience.operators.protocol import Verdict, Why, refuse
from ludus.experience.transform_phases import decisions
from ludus.records import Experiences


class Validity:
    """Refuses rows by their length, by how their episode ended, and by answers that could not be read."""

    def __init__(self, config: ValidityConfig) -> None:
        self._config = config

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """Refuse what is not worth learning from; of several reasons, the last below counts."""
        config, refused = self._config, dict[int, Why]()
        chosen = _count(rows, rows.steps["mask"])
        if config.malformed == "refuse":
            bad = _count(rows, _malformed(rows))
            refused |= refuse(bad > 0, "malformed", lambda row: f"{bad[row]} of its answers could not be used")
        if config.max_length is not None:
            most = config.max_length
            refused |= refuse(chosen > most, "too_long", lambda row: f"{chosen[row]} chosen, more than {most}")
        if config.min_length is not None:
            least = config.min_length
            refused |= refuse(chosen < least, "too_short", lambda row: f"{chosen[row]} chosen, less than {least}")
        if config.truncated == "refuse":
            cut = np.asarray(rows.sequences["truncated"], np.bool_)
            refused |= refuse(cut, "truncated", lambda row: "its episode was cut at a limit")
        return Verdict(refused=refused)


class RewardRange:
    """Refuses rows whose reward is outside of a range."""

    def __init__(self, config: RewardRangeConfig) -> None:
        self._low = -np.inf if config.low is None else config.low
        self._high = np.inf if config.high is None else config.high

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """Refuse what is below or above."""
        reward = rows.sequences["shaped_reward"].astype(np.float64)
        outside = ~((reward >= self._low) & (reward <= self._high))
        text = f"outside of {self._low:g} to {self._high:g}"
        return Verdict(refused=refuse(outside, "reward_range", lambda row: f"reward {reward[row]:g} is {text}"))


def _malformed(rows: Experiences) -> NDArray[np.bool_]:
    """Elements that end a decision which could not be read or was not allowed, `[N]`."""
    bad = np.zeros(len(rows.steps["mask"]), np.bool_)
    if "format_ok" in rows.steps:
        bad |= ~np.asarray(rows.steps["format_ok"], np.bool_)
    if "invalid" in rows.steps:
        bad |= np.asarray(rows.steps["invalid"], np.bool_)
    return bad & decisions(rows)


def _count(rows: Experiences, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Elements of each row in a mask `[N]`, `[n]`."""
    sums = np.concatenate([[0], np.cumsum(mask)])
    counts: NDArray[np.int64] = sums[rows.offsets[1:]] - sums[rows.offsets[:-1]]
    return counts
