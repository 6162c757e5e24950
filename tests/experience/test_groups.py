"""Whole groups out, whoever finished first."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from ludus.experience import OpenGroups, Verified
from ludus.records import Episode, EpisodeId, Experiences, PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.testing.experiences import sample_experiences


def episode(task: int, error: str = "") -> Episode:
    seats = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)
    made = Task(id=TaskId(task), game="game", seed=0, seats=seats, group=f"g{task // 4}")
    if error:
        return Episode.failed(EpisodeId(f"episode-{task}"), made, error)
    nothing = np.zeros(0, np.int32)
    return Episode(
        id=EpisodeId(f"episode-{task}"),
        task=made,
        returns=(1.0,),
        move_plies=nothing,
        move_seats=nothing.astype(np.int16),
        move_actions=nothing,
    )


def verified(tasks: Sequence[int], refused: Sequence[int] = ()) -> Verified:
    rows = sample_experiences([2] * len(tasks), tasks=tasks, tokens=True) if tasks else Experiences.empty()
    bad = Experiences.empty()
    if refused:
        texts = {name: np.full(len(refused), "not_finite", object) for name in ("reason", "detail")}
        bad = sample_experiences([2] * len(refused), tasks=refused, tokens=True).replace(sequences=texts)
    return Verified(episodes=(), experiences=rows, refused=[], refused_rows=bad)


def test_group_comes_out_when_its_last_episode_arrives() -> None:
    groups = OpenGroups(4)
    assert groups.add([episode(2), episode(0)], verified([2, 0])) is None
    assert groups.add([episode(5)], verified([5])) is None
    assert groups.waiting == 3
    whole = groups.add([episode(1), episode(3)], verified([3, 1]))
    assert whole is not None
    assert [found.task.id for found in whole.episodes] == [0, 1, 2, 3]
    assert whole.experiences.sequences["task"].tolist() == [0, 1, 2, 3]
    assert groups.waiting == 1


def test_failed_episode_and_refused_row_complete_their_group() -> None:
    groups = OpenGroups(2)
    assert groups.add([episode(0, error="broke")], verified([])) is None
    whole = groups.add([episode(1)], verified([], refused=[1]))
    assert whole is not None
    assert len(whole.experiences) == 0
    assert [len(part) for part in whole.refused] == [1]
    assert [bool(found.error) for found in whole.episodes] == [True, False]


def test_tasks_that_were_done_before_are_not_waited_for() -> None:
    groups = OpenGroups(4, is_done={0, 3}.__contains__)
    assert groups.add([episode(1)], verified([1])) is None
    whole = groups.add([episode(2)], verified([2]))
    assert whole is not None
    assert whole.experiences.sequences["task"].tolist() == [1, 2]


@pytest.mark.parametrize(("next_task", "wanted", "count"), [(0, 1, 4), (0, 4, 4), (4, 5, 8), (8, 0, 0), (8, -3, 0)])
def test_no_group_is_left_half_begun(next_task: int, wanted: int, count: int) -> None:
    assert OpenGroups(4).to_begin(next_task, wanted) == count
    assert OpenGroups(1).to_begin(next_task, wanted) == max(wanted, 0)


def test_without_groups_everything_comes_out_at_once() -> None:
    whole = OpenGroups(1).add([episode(9), episode(4)], verified([9, 4]))
    assert whole is not None
    assert whole.experiences.sequences["task"].tolist() == [4, 9]


@pytest.mark.parametrize("seed", range(5))
def test_every_episode_comes_out_once_in_whatever_order_they_arrive(seed: int) -> None:
    tasks = list(range(32))
    random.Random(seed).shuffle(tasks)
    groups = OpenGroups(4)
    out: list[list[int]] = []
    for start in range(0, 32, 3):
        part = tasks[start : start + 3]
        whole = groups.add([episode(task) for task in part], verified(part))
        if whole is not None:
            found = whole.experiences.sequences["task"].tolist()
            assert found == [found_episode.task.id for found_episode in whole.episodes]
            out += [found[place : place + 4] for place in range(0, len(found), 4)]
    assert sorted(out) == [list(range(first, first + 4)) for first in range(0, 32, 4)]
    assert groups.waiting == 0
