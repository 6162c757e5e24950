"""Greedy attempts among the rows (the advantage `remax`): which they are, and what the others are compared with.

A greedy attempt goes through checks, operators, buffer and transforms like the others of its group, so that its reward
is made of the same; it leaves the batch right before training and stays in it as the others' `baseline`.

Invariant: a baseline is the mean of the rewards that a learner would see in the rows of the greedy attempt of the same
group and seat; not a number where that attempt failed, was refused or is gone. A greedy row is never trained on as
what the policy did. Rows of experts and pairs are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.experience.groups import find_groups, learnt_rewards
from ludus.records import Episode, Experiences

GREEDY, BASELINE = "greedy", "baseline"


def mark_greedy(rows: Experiences, episodes: Iterable[Episode]) -> Experiences:
    """The rows with the column `greedy`, by who sat in their seats."""
    if not len(rows):
        return rows
    seats = {episode.id: episode.task.seats for episode in episodes}
    places = zip(rows.sequences["episode"].tolist(), rows.sequences["seat"].tolist(), strict=True)
    greedy = np.fromiter((seats[episode][seat].greedy for episode, seat in places), np.bool_, len(rows))
    return rows.replace(sequences={GREEDY: greedy})


def are_greedy(rows: Experiences) -> NDArray[np.bool_]:
    """Which rows are greedy attempts of the policy itself, `[n]`."""
    columns = rows.sequences
    if GREEDY not in columns:
        return np.zeros(len(rows), np.bool_)
    greedy = np.asarray(columns[GREEDY], np.bool_)
    if "source" not in columns:
        return greedy
    on_policy: NDArray[Any] = np.asarray(columns["source"], object) == "on_policy"
    return greedy & on_policy.astype(np.bool_)


def with_baselines(rows: Experiences) -> Experiences:
    """The rows without greedy ones, each with the `baseline` that those of its group give it.

    Rows that do not know of greedy attempts (no column `greedy`) stay as they are.
    """
    if GREEDY not in rows.sequences:
        return rows
    greedy, groups = are_greedy(rows), find_groups(rows)
    of_rows = groups.of_rows
    # A mean over members of means over their rows; but for a task that was played twice there is one greedy member.
    is_greedy = groups.per_member(greedy.astype(np.float64)) > 0
    rewards = groups.per_member(learnt_rewards(rows))
    count = np.bincount(groups.group, is_greedy, minlength=len(groups.names))
    total = np.bincount(groups.group, np.where(is_greedy, rewards, 0.0), minlength=len(groups.names))
    known = groups.are_named & (count > 0)
    baseline = np.where(known, total / np.maximum(count, 1), np.nan)[of_rows].astype(np.float32)
    return rows.replace(sequences={BASELINE: baseline}).take(np.flatnonzero(~greedy))
