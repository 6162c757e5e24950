"""Rows of different origin in one batch."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.errors import LudusError
from ludus.records import Experiences, join
from ludus.testing.experiences import sample_experiences


def test_rows_of_the_same_columns_are_put_behind_each_other() -> None:
    parts = [sample_experiences((2, 3)), sample_experiences((1,), tasks=(7,))]
    assert join(parts).sequences["task"].tolist() == [0, 1, 7]
    assert join(parts).offsets.tolist() == [0, 2, 5, 6]
    assert join([parts[0]]) is parts[0]
    assert len(join([])) == len(join([Experiences.empty()])) == 0


def test_columns_that_some_rows_lack_say_what_their_absence_means() -> None:
    on_policy = sample_experiences((2,), tokens=True, rewards=(0.5,))
    other = sample_experiences((3,), tokens=True, rewards=(0.25,)).replace(
        sequences={
            "source": np.array(["pairs"], object),
            "pair": np.array([4]),
            "chosen": np.array([True]),
            "turn": np.array([2]),
            "raw_reward": np.array([9.0], np.float32),
        },
        steps={"format_ok": np.zeros(3, np.bool_), "teacher_logp": np.ones(3, np.float32)},
    )
    rows = join([on_policy, other])
    assert rows.sequences["source"].tolist() == ["on_policy", "pairs"]
    assert rows.sequences["pair"].tolist() == [-1, 4]
    assert rows.sequences["chosen"].tolist() == [False, True]
    assert rows.sequences["turn"].tolist() == [0, 2]
    assert rows.sequences["raw_reward"].tolist() == [0.5, 9.0]
    assert rows.steps["format_ok"].tolist() == [True] * 2 + [False] * 3
    assert rows.steps["teacher_logp"].tolist() == [0.0] * 2 + [1.0] * 3
    assert rows.steps["format_ok"].dtype == np.bool_


def test_part_of_a_longer_batch_is_joined_by_its_own_elements() -> None:
    whole = sample_experiences((2, 3, 1), tokens=True)
    part = Experiences(
        sequences={name: column[1:] for name, column in whole.sequences.items()},
        offsets=whole.offsets[1:],
        steps=whole.steps,
    )
    other = sample_experiences((1,), tokens=True).replace(steps={"extra": np.ones(1, np.float32)})
    rows = join([part, other])
    assert rows.steps["action"][:4].tolist() == whole.steps["action"][2:].tolist()
    assert rows.steps["extra"].tolist() == [0.0] * 4 + [1.0]


def test_what_was_seen_on_a_board_is_not_made_up() -> None:
    with pytest.raises(LudusError, match="with and without the same kind of observation"):
        join([sample_experiences((2,)), sample_experiences((2,), tokens=True)])
    smaller = sample_experiences((1,)).replace(steps={"observation": np.zeros((1, 5), np.float32)})
    with pytest.raises(LudusError, match="observation"):
        join([sample_experiences((2,)), smaller])
