"""How fast explorers are, and how long they played: from what they tell, since somebody last asked."""

from __future__ import annotations

from ludus.explore.messages import Played
from ludus.explore.worker import Work
from ludus.orchestrator.explorer_work import ExplorerWork


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
