"""Several attempts at one task, each after being told that the one before was wrong."""

from typing import Any

import pytest
from attempting import Make, attempt, part, run


def counting(prompt: str) -> str:
    """2, then 3, then 4, ..."""
    return str(2 + prompt.count("not right"))


@pytest.mark.parametrize(
    ("settings", "replies", "total", "given"),
    [
        ({}, ("2", "3", "4"), 1.0, [1.0]),
        ({"attempts": 2}, ("2", "3"), 0.0, []),
        ({"discount": 0.5}, ("2", "3", "4"), 0.25, [0.25]),
        ({"credit": "each"}, ("2", "3", "4"), 1.0, [1.0]),
        ({"attempts": 5, "right_from": 9.0, "credit": "best"}, ("2", "3", "4", "5", "6"), 1.0, [1.0]),
        ({"attempts": 5, "right_from": 9.0, "credit": "each"}, ("2", "3", "4", "5", "6"), 1.0, [1.0]),
    ],
)
def test_attempts_are_made_until_one_is_right(
    make_runner: Make, settings: dict[str, Any], replies: tuple[str, ...], total: float, given: list[float]
) -> None:
    runner, _ = make_runner(counting, {"kind": "attempts", **settings})
    batch = run(runner, [attempt()])
    (episode,) = batch.episodes
    assert not episode.error
    assert (episode.replies, episode.returns) == (replies, (total,))
    assert set(episode.move_texts[1:]) <= {"That is not right. Try again."}
    rewards = part(batch.experiences, 0, "reward")
    assert [value for value in rewards.tolist() if value] == given
    if settings.get("credit") == "each" and settings.get("attempts") == 5:
        assert rewards[-1] == 0.0


def test_feedback_may_use_the_tasks_fields(make_runner: Make) -> None:
    config = {"kind": "attempts", "feedback": "not right; hint: {hint}", "attempts": 2}
    runner, _ = make_runner(counting, config)
    (episode,) = run(runner, [attempt(hint="even")]).episodes
    assert episode.move_texts[1] == "not right; hint: even"
    assert dict(episode.rewards) == {"exact": 0.0, "workflow": 0.0}
    counts = runner.take_counts()
    assert counts["workflow/metrics/attempts/sum"] == 2.0
    assert counts["workflow/metrics/right/sum"] == 0.0


def test_attempts_without_rewards_are_one_clear_error(make_runner: Make) -> None:
    (episode,) = run(make_runner(counting, "attempts", rewards=())[0], [attempt()]).episodes
    assert "the run has none; give it some under rewards" in episode.error
