"""Operators that compare the members of a group: is there anything to learn from it, and does it say something new.

A member that has no group has nobody to be compared with, and none of these refuses it.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from ludus.config import DeduplicateConfig, PassRateConfig, ZeroVarianceConfig
from ludus.experience.groups import Groups, learnt_rewards
from ludus.experience.operators.protocol import Verdict, Why, refuse
from ludus.records import Experiences


class ZeroVariance:
    """Refuses groups whose members all got the same, and members that are all that is left of their group."""

    def __init__(self, config: ZeroVarianceConfig) -> None:
        self._tolerance = config.tolerance

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """Compare what the learner would compare: the rewards as they are spread over the tokens by now."""
        rewards = groups.per_member(learnt_rewards(rows))
        equal = groups.are_named & (groups.spreads(rewards) <= self._tolerance)
        of_rows, sizes, means = groups.of_rows, groups.sizes, groups.means(rewards)

        def detail(row: int) -> str:
            group = of_rows[row]
            return f"all {sizes[group]} of group {groups.names[group]} got {means[group]:g}"

        share = equal[groups.are_named].astype(np.float64)
        return Verdict(refused=refuse(equal[of_rows], "zero_variance", detail), metrics={"zero_variance": share})


class PassRate:
    """Measures the share of each group that succeeded, and refuses groups in which it is too low or too high."""

    def __init__(self, config: PassRateConfig) -> None:
        self._config = config

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """The rate of a group is over its members, each by the mean of its rows."""
        config = self._config
        reward = groups.per_member(rows.sequences["shaped_reward"].astype(np.float64))
        rates = groups.means((reward >= config.success).astype(np.float64))
        outside = groups.are_named & ((rates < config.low) | (rates > config.high))
        of_rows = groups.of_rows

        def detail(row: int) -> str:
            rate = rates[of_rows[row]]
            return f"{rate:.0%} of group {groups.names[of_rows[row]]} succeeded"

        return Verdict(refused=refuse(outside[of_rows], "pass_rate", detail), metrics={"pass_rate": rates})


class Deduplicate:
    """Keeps the first few of the rows of a group that hold exactly the same."""

    def __init__(self, config: DeduplicateConfig) -> None:
        self._keep = config.keep

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """The first are those of the lowest tasks, whoever arrived first."""
        columns = rows.sequences
        order = np.lexsort((rows.places, columns["attempt"], columns["task"]))
        of_rows, named = groups.of_rows, groups.are_named
        seen: dict[tuple[int, bytes], list[int]] = {}
        refused: dict[int, Why] = {}
        for row in order.tolist():
            if not named[of_rows[row]]:
                continue
            alike = seen.setdefault((int(of_rows[row]), _content(rows, row)), [])
            if len(alike) >= self._keep:
                refused[row] = "same_content", f"the same as what episode {columns['episode'][alike[0]]} says"
            alike.append(row)
        return Verdict(refused=refused)


def _content(rows: Experiences, row: int) -> bytes:
    """What a row holds: everything seen and chosen, without what came of it."""
    digest = blake2b(digest_size=16)
    span = slice(int(rows.offsets[row]), int(rows.offsets[row + 1]))
    for name in ("action", "mask", "observation"):
        if name in rows.steps:
            digest.update(np.ascontiguousarray(rows.steps[name][span]).tobytes())
    return digest.digest()
