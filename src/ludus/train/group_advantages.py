"""Advantages by comparison within a group: GRPO, leave-one-out (RLOO), OPMD and AsymRE. No value estimate is needed.

A group is the episodes that were played from the same beginning (`sequences["group"]`), and its members are the seats
that learn. Where sequences are turns, all turns of one seat in one episode are one member: however many there are, it
counts once in the group's mean and deviation, with the mean of their rewards (each turn is given the whole episode's).
Each element that was chosen gets its sequence's advantage; all others get 0. Seats are compared with the same seat
only, since the other side's reward says nothing about how well this one played.

A member that is alone in its group has nothing to be compared with and gets 0, and so does an episode without a group.
The standard deviation is the unbiased one. Not covered: discounting within an episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.config import AdvantageConfig
from ludus.errors import TrainError
from ludus.records import Experiences

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def group_advantages(
    experiences: Experiences, config: AdvantageConfig
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Advantage `[N]` and target `[N]` (the reward itself) by the config's kind. Raises TrainError without groups."""
    if "group" not in experiences.sequences:
        raise TrainError(f"the experience has no groups, so an advantage of kind {config.kind} cannot be had")
    member, group, reward, of_member = _members(experiences)
    baseline, scale = _COMPARISONS[config.kind](of_member, group, config)
    scale = np.where(_means(of_member, group)[0] > 1, scale, 0.0)
    advantage = (reward - baseline[member]) * scale[member]
    return _spread(experiences, advantage), _spread(experiences, reward)


def _everyone(reward: Floats, group: Ints, config: AdvantageConfig) -> tuple[Floats, Floats | float]:
    """What each member's reward is compared with, `[m]`: the group's mean; and what the difference is multiplied by."""
    count, mean = _means(reward, group)
    if config.scale == "none":
        return mean, 1.0
    if config.scale == "batch":
        deviation = np.full(len(reward), reward.std(ddof=1) if len(reward) > 1 else 0.0)
    else:
        squares = np.bincount(group, (reward - mean) ** 2)[group]
        deviation = np.sqrt(squares / np.maximum(count - 1, 1))
    return mean, 1.0 / (deviation + config.scale_eps)


def _others(reward: Floats, group: Ints, _: AdvantageConfig) -> tuple[Floats, Floats | float]:
    """The same with the mean of the others in the group, not scaled."""
    count, mean = _means(reward, group)
    return (mean * count - reward) / np.maximum(count - 1, 1), 1.0


def _mirror(reward: Floats, group: Ints, config: AdvantageConfig) -> tuple[Floats, Floats | float]:
    """The same with OPMD's baseline, not scaled."""
    count, mean = _means(reward, group)
    if config.baseline == "mean":
        return mean, 1.0
    best = np.full(len(count), -np.inf)
    np.maximum.at(best, group, reward)
    best = best[group]  # taken out of the exponent, so that nothing overflows
    total = np.bincount(group, np.exp((reward - best) / config.tau))[group]
    return best + config.tau * (np.log(total) - np.log(count)), 1.0


def _below_everyone(reward: Floats, group: Ints, config: AdvantageConfig) -> tuple[Floats, Floats | float]:
    """The same with the group's mean and AsymRE's shift, not scaled."""
    return _means(reward, group)[1] + config.baseline_shift, 1.0


_COMPARISONS = {"group": _everyone, "rloo": _others, "opmd": _mirror, "asymre": _below_everyone}


def equal_groups(experiences: Experiences) -> float:
    """Share of the groups of more than one member in which all got the same, so that nothing is learnt from them."""
    if "group" not in experiences.sequences or not len(experiences):
        return 0.0
    _, group, _, reward = _members(experiences)
    low, high = np.full(len(group), np.inf), np.full(len(group), -np.inf)
    np.minimum.at(low, group, reward)
    np.maximum.at(high, group, reward)
    several = np.bincount(group, minlength=len(group)) > 1
    return float((low == high)[several].mean()) if several.any() else 0.0


def _means(reward: Floats, group: Ints) -> tuple[Floats, Floats]:
    """Size and mean of each member's group, `[m]` each."""
    count = np.bincount(group).astype(np.float64)
    mean = np.bincount(group, reward) / np.maximum(count, 1.0)
    return count[group], mean[group]


def _members(experiences: Experiences) -> tuple[Ints, Ints, Floats, Floats]:
    """Of each sequence its member, `[n]`; of each member its group, `[m]`; the reward of each sequence and member."""
    columns, count = experiences.sequences, len(experiences)
    names = columns["group"].tolist()
    seats = columns["seat"].tolist() if "seat" in columns else [0] * count
    episodes = columns["episode"].tolist() if "episode" in columns else list(range(count))
    attempts = columns["attempt"].tolist() if "attempt" in columns else [0] * count
    member = _numbered(list(zip(episodes, attempts, seats, strict=True)))
    # No name, no group: such a member is alone.
    keys = [(name, seat if name else which) for name, seat, which in zip(names, seats, member.tolist(), strict=True)]
    group_of_member = np.zeros(int(member.max(initial=-1)) + 1, np.int64)
    group_of_member[member] = _numbered(keys)
    reward, count = _sequence_rewards(experiences), len(group_of_member)
    share = np.maximum(np.bincount(member, minlength=count), 1)
    return member, group_of_member, reward, np.bincount(member, reward, minlength=count) / share


def _numbered(keys: list[Any]) -> Ints:
    """Equal keys as equal numbers from 0, in the order of their first appearance."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def _sequence_rewards(experiences: Experiences) -> Floats:
    """Each sequence's rewards from its first choice on, `[n]`: what came before is nobody's."""
    begin, stop = int(experiences.offsets[0]), int(experiences.offsets[-1])
    mask = np.asarray(experiences.steps["mask"][begin:stop], bool)
    reward = np.asarray(experiences.steps["reward"][begin:stop], np.float64)
    owner = experiences.sequence_of_step()
    chosen = np.cumsum(mask)
    before = np.concatenate([[0], chosen])[experiences.offsets[:-1] - begin]
    earned = np.where(chosen > before[owner], reward, 0.0)
    return np.bincount(owner, earned, minlength=len(experiences)).astype(np.float64)


def _spread(experiences: Experiences, per_sequence: Floats) -> NDArray[np.float32]:
    """A number per sequence as a step column; 0 outside the mask."""
    begin, stop = int(experiences.offsets[0]), int(experiences.offsets[-1])
    mask = np.asarray(experiences.steps["mask"][begin:stop], bool)
    return np.where(mask, per_sequence[experiences.sequence_of_step()], 0.0).astype(np.float32)
