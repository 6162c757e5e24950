"""Which tasks of a batch are stragglers, by steps of play or by arrival."""

import random

import numpy as np
import pytest

from ludus.config import RunConfig, parse_config
from ludus.records import Episode, EpisodeId, PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.sources.cut_off import CutOff
from ludus.sources.done_tasks import DoneTasks

SEATS = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)


def config(share: float, group: int = 1) -> RunConfig:
    text = f"name: x\ngames: [g]\npolicy: {{model: {{path: m}}}}\nexplore: {{cut_off: {share}, group: {group}}}\n"
    return parse_config(text, "x.yaml")


def episode(number: int, steps: int, purpose: str = "train") -> Episode:
    """Half of its steps are plies, the others tokens."""
    task = Task(id=TaskId(number), purpose=purpose, game="g", seed=number, seats=SEATS)  # type: ignore[arg-type]
    plies = np.arange(steps // 2, dtype=np.int32)
    return Episode(
        id=EpisodeId(str(number)),
        task=task,
        returns=(0.0,),
        move_plies=plies,
        move_seats=np.zeros(len(plies), np.int16),
        move_actions=np.zeros(len(plies), np.int32),
        sampled=steps - steps // 2,
    )


@pytest.mark.parametrize(
    ("share", "tasks", "group", "enough"),
    [
        (0.9, 10, 1, 9),
        (0.7, 10, 1, 7),
        (0.9, 8, 1, 8),
        (0.01, 8, 1, 1),
        (0.75, 16, 4, 12),
        (0.5, 12, 4, 8),
        (1, 8, 1, 8),
    ],
)
def test_the_share_is_rounded_up_to_whole_groups(share: float, tasks: int, group: int, enough: int) -> None:
    assert CutOff(config(share, group)).enough(tasks) == enough


def test_the_longest_are_cut_off_in_whatever_order_they_come() -> None:
    """The true lengths decide: of equally long ones the earlier stays."""
    lengths = [5, 9, 3, 7, 7, 2, 7, 4]
    for seed in range(50):
        order, cut_off, cut = list(range(8)), CutOff(config(0.6)), set()
        random.Random(seed).shuffle(order)
        for place, number in enumerate(order):
            cut_off.note([episode(number, lengths[number])])
            bound = cut_off.bound(range(8))
            assert (bound is None) == (place < 4)
            # An explorer gives up what has more steps than it may have.
            over = [] if bound is None else [task for task in order[place + 1 :] if lengths[task] > bound]
            cut |= {*cut_off.stragglers(range(8), over)}
            if len(cut) == 3:
                break
        assert cut == {1, 4, 6}, order
        assert cut_off.count == 3


def test_a_group_is_as_long_as_its_longest_episode_and_goes_whole() -> None:
    cut_off = CutOff(config(0.5, group=2))
    cut_off.note([episode(0, 1), episode(1, 9), episode(2, 5), episode(3, 5)])
    assert cut_off.bound(range(4)) == 5
    assert cut_off.stragglers(range(4), []) == [0, 1]
    assert cut_off.stragglers(range(4), []) == []


def test_half_a_group_does_not_count_as_there() -> None:
    cut_off = CutOff(config(0.5, group=2))
    cut_off.note([episode(0, 1)])
    assert cut_off.bound(range(4)) is None


def test_a_resumed_run_cuts_off_the_same_and_says_so_again() -> None:
    """Rewards that the log has of a task that is cut off must be taken back again."""
    cut_off = CutOff(config(0.5))
    cut_off.note([episode(0, 8), episode(1, 3), episode(2, 5), episode(3, 4, "evaluate")])
    assert cut_off.stragglers(range(4), [3]) == [0, 3]
    resumed = CutOff(config(0.5))
    resumed.load_state(cut_off.state())
    resumed.note([episode(0, 8)])
    assert resumed.bound(range(4)) == 5
    assert resumed.stragglers(range(4), []) == [0, 3]
    resumed.forget(4)
    assert resumed.state() == {"steps": []}


def test_asynchronous_batches_wait_for_those_that_come_first() -> None:
    cut_off, done = CutOff(config(0.5, group=2)), DoneTasks()
    done.add([0, 1, 4, 5, 6])
    assert cut_off.late(range(8), done) == [2, 3, 6, 7]
    done.reset(0, [0, 1, 4])
    assert cut_off.late(range(8), done) == []
    done.reset(8, [])
    assert cut_off.late(range(8), done) == []


def test_by_default_nothing_is_cut_off() -> None:
    cut_off = CutOff(config(1.0))
    cut_off.note([episode(0, 8)])
    assert (cut_off.is_on, cut_off.state(), cut_off.metrics()) == (False, {}, {})
