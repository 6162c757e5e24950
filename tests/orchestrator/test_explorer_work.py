"""How fast explorers are, and how long they played: from what they tell, since somebody last asked."""

from __future__ import annotations

import pytest

from ludus.explore.messages import Played, Speech
from ludus.explore.worker import Work
from ludus.orchestrator.explorer_work import ExplorerWork, speech_metrics


def played(busy_s: float, tokens: int) -> Played:
    return Played(episodes=1, episode_bytes=0, steps=1, busy_s=busy_s, sampled_tokens=tokens)


def test_tokens_per_second_are_those_of_all_explorers_while_they_play() -> None:
    work = ExplorerWork()
    work.add("explorer-0", played(2.0, 100))
    work.add("explorer-0", played(2.0, 100))
    work.add("explorer-1", played(4.0, 400))
    assert work.take_metrics() == {"time/explore_s": 4.0, "explore/tokens_per_s": 150.0}
    assert work.take_metrics() == {}, "what was told is told once"


def test_networks_have_a_time_and_no_tokens() -> None:
    work = ExplorerWork()
    work.add("explorer-0", played(3.0, 0))
    assert work.take_metrics() == {"time/explore_s": 3.0}


def test_an_explorer_tells_what_came_since_it_last_told() -> None:
    work = Work()
    with work.counting():
        pass
    assert work.take(70)[1] == 70
    assert work.take(100) == (0.0, 30)


@pytest.mark.parametrize(("is_shared", "running", "waiting"), [(False, 11.0, 5.0), (True, 5.5, 2.5)])
def test_replies_of_all_explorers_are_one_mean_and_shared_engines_are_counted_once(
    is_shared: bool, running: float, waiting: float
) -> None:
    first = [
        Speech(replies=3, tokens=30, cut=1, prompt_tokens=100, reused_tokens=20, looks=1, running=4.0),
        Speech(looks=1, running=6.0, waiting=2.0),
    ]
    second = [Speech(replies=1, tokens=50, cut=1, closed=1, prompt_tokens=100, looks=2, running=12.0, waiting=8.0)]
    assert speech_metrics([first, second, []], is_shared=is_shared) == {
        "explore/reply_tokens": 20.0,
        "explore/cut_replies": 0.5,
        "explore/closed_thoughts": 0.25,
        "explore/engine/prefix_hits": 0.1,
        "explore/engine/running": running,
        "explore/engine/waiting": waiting,
    }
    assert speech_metrics([[Speech()]], is_shared=is_shared) == {}
