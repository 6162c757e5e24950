"""The operator that changes rewards and refuses nothing."""

from __future__ import annotations

import numpy as np

from ludus.config import ShapeConfig
from ludus.experience.groups import Groups
from ludus.experience.operators.protocol import Values, Verdict
from ludus.records import Experiences


class Shape:
    """`scale * reward + offset`, then cut to the bounds, then compared within the group."""

    def __init__(self, config: ShapeConfig) -> None:
        self._config = config

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """New totals of all rows."""
        config = self._config
        rewards = config.scale * rows.sequences["shaped_reward"].astype(np.float64) + config.offset
        rewards = np.clip(
            rewards,
            -np.inf if config.low is None else config.low,
            np.inf if config.high is None else config.high,
        )
        return Verdict(rewards=rewards if config.normalise == "none" else self._compared(rewards, groups))

    def _compared(self, rewards: Values, groups: Groups) -> Values:
        of_members = groups.per_member(rewards)
        means = groups.means(of_members)
        # Exactly 0 where all are equal: the mean can differ from them by rounding, which a division would blow up.
        equal = groups.spreads(of_members) == 0
        scale = np.ones(len(means))
        if self._config.normalise == "standardise":
            scale = np.where(equal, 1.0, groups.deviations(of_members))
        of_rows = groups.of_rows
        compared = np.where(equal[of_rows], 0.0, (rewards - means[of_rows]) / np.where(scale > 0, scale, 1.0)[of_rows])
        return np.where(groups.are_named[of_rows], compared, rewards)
