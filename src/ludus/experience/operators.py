"""Operators: they look at raw rows of whole groups and say which are refused, and what the others get.

Add one from a plugin with `register_operator`, or from an installed package with an entry point in the group
`ludus.operators`; a built-in one is in `OPERATORS`, its model in `config/sections/experience.py`.

Invariant: a group gets the same verdict in any company. A member that has no group has nobody to be compared with, and
none of the built-in operators that compare refuses it. An error of a user's operator, or an answer that is no verdict,
stops the run with its name: it is the run's own code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ludus.config.sections.experience import (
    CustomOperatorConfig,
    DeduplicateConfig,
    PassRateConfig,
    RewardRangeConfig,
    ShapeConfig,
    ValidityConfig,
    ZeroVarianceConfig,
)
from ludus.errors import LudusError
from ludus.experience.groups import Groups, learnt_rewards
from ludus.experience.transforms import decisions
from ludus.plugin_frames import in_words
from ludus.plugins import Registry
from ludus.records import Experiences

Values = NDArray[np.float64]
Why = tuple[str, str]
"""A word that refusals are counted by, such as `too_short`, and a sentence for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an operator makes of n rows."""

    refused: Mapping[int, Why] = field(default_factory=dict)
    """Rows that are not to be trained on, by their index, and why."""
    rewards: Values | None = None
    """New total of each row, `[n]`; None leaves them as they are."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Numbers to be averaged and logged, `[k]` by name, such as one for each group."""


class Operator(Protocol):
    """Turns raw rows into verified ones.

    The same group must get the same verdict whatever else is in the batch, because groups come in any company: an
    operator keeps nothing between calls and looks at nothing beyond a row's own group.
    """

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """Judge the rows of whole groups, which are not to be changed. Called once for each row of the run."""
        ...


def refuse(bad: NDArray[np.bool_], reason: str, detail: Callable[[int], str]) -> dict[int, Why]:
    """Refuse the rows of a mask `[n]`."""
    return {row: (reason, detail(row)) for row in np.flatnonzero(bad).tolist()}


# -- each row on its own -----------------------------------------------------------------------------------------------


def judge_validity(config: ValidityConfig, rows: Experiences, groups: Groups) -> Verdict:
    """Refuses rows by their length, by how their episode ended, and by answers that could not be read.

    Of several reasons, the last below counts.
    """
    refused: dict[int, Why] = {}
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


def judge_range(config: RewardRangeConfig, rows: Experiences, groups: Groups) -> Verdict:
    """Refuses rows whose reward is outside of a range."""
    low, high = _bounds(config)
    reward = rows.sequences["shaped_reward"].astype(np.float64)
    outside = ~((reward >= low) & (reward <= high))
    text = f"outside of {low:g} to {high:g}"
    return Verdict(refused=refuse(outside, "reward_range", lambda row: f"reward {reward[row]:g} is {text}"))


def _bounds(config: RewardRangeConfig | ShapeConfig) -> tuple[float, float]:
    return -np.inf if config.low is None else config.low, np.inf if config.high is None else config.high


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


# -- the members of a group: is there anything to learn from it, and does it say something new ------------------------


def judge_variance(config: ZeroVarianceConfig, rows: Experiences, groups: Groups) -> Verdict:
    """Refuses groups whose members all got the same, and members that are all that is left of their group.

    Compares what the learner would compare: the rewards as they are spread over the tokens by now.
    """
    rewards = groups.per_member(learnt_rewards(rows))
    equal = groups.are_named & (groups.spreads(rewards) <= config.tolerance)
    of_rows, sizes, means = groups.of_rows, groups.sizes, groups.means(rewards)

    def detail(row: int) -> str:
        group = of_rows[row]
        return f"all {sizes[group]} of group {groups.names[group]} got {means[group]:g}"

    share = equal[groups.are_named].astype(np.float64)
    return Verdict(refused=refuse(equal[of_rows], "zero_variance", detail), metrics={"zero_variance": share})


def judge_pass_rate(config: PassRateConfig, rows: Experiences, groups: Groups) -> Verdict:
    """Measures the share of each group that succeeded, and refuses groups in which it is too low or too high.

    The rate of a group is over its members, each by the mean of its rows.
    """
    reward = groups.per_member(rows.sequences["shaped_reward"].astype(np.float64))
    rates = groups.means((reward >= config.success).astype(np.float64))
    outside = groups.are_named & ((rates < config.low) | (rates > config.high))
    of_rows = groups.of_rows

    def detail(row: int) -> str:
        return f"{rates[of_rows[row]]:.0%} of group {groups.names[of_rows[row]]} succeeded"

    return Verdict(refused=refuse(outside[of_rows], "pass_rate", detail), metrics={"pass_rate": rates})


def judge_duplicates(config: DeduplicateConfig, rows: Experiences, groups: Groups) -> Verdict:
    """Keeps the first few of the rows of a group that hold exactly the same: those of the lowest tasks."""
    columns = rows.sequences
    order = np.lexsort((rows.places, columns["attempt"], columns["task"]))
    of_rows, named = groups.of_rows, groups.are_named
    seen: dict[tuple[int, bytes], list[int]] = {}
    refused: dict[int, Why] = {}
    for row in order.tolist():
        if not named[of_rows[row]]:
            continue
        alike = seen.setdefault((int(of_rows[row]), _content(rows, row)), [])
        if len(alike) >= config.keep:
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


def shape(config: ShapeConfig, rows: Experiences, groups: Groups) -> Verdict:
    """`scale * reward + offset`, then cut to the bounds, then compared within the group. Refuses nothing."""
    rewards = config.scale * rows.sequences["shaped_reward"].astype(np.float64) + config.offset
    rewards = np.clip(rewards, *_bounds(config))
    if config.normalise == "none":
        return Verdict(rewards=rewards)
    of_members = groups.per_member(rewards)
    means = groups.means(of_members)
    # Exactly 0 where all are equal: the mean can differ from them by rounding, which a division would blow up.
    equal = groups.spreads(of_members) == 0
    scale = np.ones(len(means))
    if config.normalise == "standardise":
        scale = np.where(equal, 1.0, groups.deviations(of_members))
    of_rows = groups.of_rows
    compared = np.where(equal[of_rows], 0.0, (rewards - means[of_rows]) / np.where(scale > 0, scale, 1.0)[of_rows])
    return Verdict(rewards=np.where(groups.are_named[of_rows], compared, rewards))


# -- by kind and by name -----------------------------------------------------------------------------------------------


GroupFunction = Callable[..., Verdict]
"""Takes the rows of one group, and the options as keywords."""


class PerGroup:
    """Applies a user's function to each group by itself, so that its verdict cannot depend on the company."""

    def __init__(self, name: str, function: GroupFunction, options: dict[str, Any]) -> None:
        self._name = name
        self._function = function
        self._options = options

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """Put the verdicts on the groups together."""
        rewards = rows.sequences["shaped_reward"].astype(np.float64)
        refused: dict[int, Why] = {}
        metrics: dict[str, list[float]] = {}
        of_rows = groups.of_rows
        for number, name in enumerate(groups.names):
            places = np.flatnonzero(of_rows == number)
            verdict = self._ask(rows.take(places), name)
            refused |= {int(places[row]): why for row, why in verdict.refused.items()}
            if verdict.rewards is not None:
                rewards[places] = verdict.rewards
            for key, values in verdict.metrics.items():
                metrics.setdefault(key, []).extend(np.atleast_1d(np.asarray(values, np.float64)).tolist())
        return Verdict(refused=refused, rewards=rewards, metrics=metrics)

    def _ask(self, group: Experiences, name: str) -> Verdict:
        try:
            verdict = self._function(group, **self._options)
        except Exception as error:  # a user's code may raise anything
            what = f"operator {self._name} failed on group {name or group.sequences['episode'][0]}"
            raise LudusError(f"{what}: {in_words(error)}") from error
        return check_verdict(verdict, len(group), self._name)


def check_verdict(verdict: Any, rows: int, name: str) -> Verdict:
    """Refuse what is no verdict on that many rows."""
    if not isinstance(verdict, Verdict):
        raise LudusError(f"operator {name} gave a {type(verdict).__name__}; expected a Verdict")
    for row, why in verdict.refused.items():
        is_row = isinstance(row, int | np.integer) and 0 <= row < rows
        if not is_row or not isinstance(why, tuple) or len(why) != 2 or not why[0] or not isinstance(why[0], str):
            expected = f"a row from 0 to {rows - 1} with a reason and a detail"
            raise LudusError(f"operator {name} refused {row!r} with {why!r}; expected {expected}")
    if verdict.rewards is not None:
        rewards = np.asarray(verdict.rewards)
        if rewards.shape != (rows,) or rewards.dtype.kind not in "fiu" or not np.isfinite(rewards).all():
            raise LudusError(f"operator {name} must give {rows} finite rewards, got {rewards.dtype} {rewards.shape}")
    return verdict


OWN: Registry[GroupFunction] = Registry("operator", "ludus.operators")


def register_operator(name: str, function: GroupFunction) -> None:
    """Make an operator known under a name.

    Args:
        name: What `{kind: custom, name: ...}` says.
        function: Takes the raw rows of one group, and the options as keywords; gives a `Verdict`. It must not change
            the rows nor remember anything.
    """
    OWN.add(name, function)


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """An operator that comes with ludus, as a config has it."""

    function: Callable[[Any, Experiences, Groups], Verdict]
    config: Any

    def judge(self, rows: Experiences, groups: Groups) -> Verdict:
        """Judge the rows of whole groups."""
        return self.function(self.config, rows, groups)


def make_operator(config: Any) -> tuple[str, Operator]:
    """The operator that a config asks for, and what to call it. Raises ConfigError if nothing has its name."""
    if isinstance(config, CustomOperatorConfig):
        return config.name, PerGroup(config.name, OWN.find(config.name), dict(config.options))
    return config.kind, BuiltIn(OPERATORS[config.kind], config)


OPERATORS: dict[str, Callable[[Any, Experiences, Groups], Verdict]] = {
    "validity": judge_validity,
    "reward_range": judge_range,
    "zero_variance": judge_variance,
    "deduplicate": judge_duplicates,
    "shape": shape,
    "pass_rate": judge_pass_rate,
}
