"""What the metrics show of play."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from ludus.orchestrator.rollout_sink import WINDOW, RolloutMetrics
from ludus.records import Episode, EpisodeId, PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.telemetry.metric_table import find_metric

LEARNER = Seat(policy=PolicyRef(name=PolicyName("main")), learns=True)
OTHER = Seat(policy=PolicyRef(name=PolicyName("random")))


def spoken(game: str, moves: tuple[str, ...], accepted: tuple[int, ...], replies: tuple[str, ...]) -> Episode:
    """The learner and somebody else in turn."""
    count = len(moves)
    return Episode(
        id=EpisodeId("a" * 24),
        task=Task(id=TaskId(1), game=game, seed=0, seats=(LEARNER, OTHER), purpose="train"),
        returns=(1.0, -1.0),
        move_plies=np.arange(count, dtype=np.int32),
        move_seats=np.arange(count, dtype=np.int16) % 2,
        move_actions=np.array(accepted, np.int32),
        move_texts=moves,
        replies=replies,
    )


def test_of_words_the_form_the_rules_and_the_length_are_counted_for_learning_seats_alone() -> None:
    window = RolloutMetrics()
    window.add(
        [spoken("text:x", ("4", "1", "", "2", "9", "3"), (1, 1, 0, 1, 0, 1), ("[4]", "1", "hm", "2", "[9]!", "3"))]
    )
    found = window.metrics()
    assert found["explore/format_success"] == pytest.approx(2 / 3)
    assert found["explore/invalid_moves"] == pytest.approx(2 / 3)
    assert found["explore/reply_chars"] == pytest.approx((3 + 2 + 4) / 3)
    assert found["explore/seat_0/reward"] == 1.0


def test_attempts_at_tasks_have_no_form_of_a_move() -> None:
    window = RolloutMetrics()
    episode = spoken("tasks:x", ("what is 2+2?", "?"), (1, 1), ("4", "4"))
    window.add([replace(episode, task=replace(episode.task, inputs={"row": 3}))])
    found = window.metrics()
    assert "explore/format_success" not in found
    assert found["explore/reward"] == 1.0
    assert not {"explore/draws", "explore/seat_0/reward", "explore/seat_0/wins"} & found.keys()


def test_the_reward_is_that_of_the_learning_seats_over_a_stated_window() -> None:
    window = RolloutMetrics()
    lost = replace(spoken("text:x", ("4", "1"), (1, 1), ("4", "1")), returns=(-1.0, 1.0))
    won = replace(lost, returns=(1.0, -1.0))
    window.add([lost] * 1000)
    assert window.metrics()["explore/reward"] == -1.0
    window.add([won] * 256)
    assert window.metrics()["explore/reward"] == 0.0
    row = find_metric("explore/reward")
    assert row is not None
    assert f"last {WINDOW} training episodes" in row.meaning
