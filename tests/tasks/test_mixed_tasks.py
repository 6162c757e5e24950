"""Games and tasksets in one run: a pure function of the number, by weight, and exact after a resume."""

import json
from collections import Counter

import pytest
from msgspec.structs import replace

from ludus.config import GameChoice, TasksetConfig
from ludus.errors import ConfigError
from ludus.records import Episode, EpisodeId, PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.tasks import EvaluationPlan, GameTasks, MixedTasks, TasksetTasks, load_taskset
from ludus.tasks.protocol import FIRST_EVALUATION_TASK

SEATS = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)
GAME = "open_spiel:tic_tac_toe"


def make(order: str = "shuffle", group: int = 1, weight: float = 1.0) -> MixedTasks:
    sums = TasksetConfig.model_validate({"path": "ludus/arithmetic?digits=1&count=20", "order": order})
    held_out = TasksetConfig(path="ludus/arithmetic?digits=1&count=3&split=test", name="held_out")
    games = GameTasks([GameChoice(key=GAME)], seed=5, group=group)
    tasks = TasksetTasks([load_taskset(sums)], seed=6, group=group, held_out=[load_taskset(held_out)])
    return MixedTasks({"games": (games, 1.0), "tasks": (tasks, weight)}, seed=7, group=group)


def seats_for(task: TaskId, game: str) -> tuple[Seat, ...]:
    return SEATS


def played(task: Task) -> Episode:
    return replace(Episode.failed(EpisodeId(str(task.id)), task, ""), returns=(float(task.id % 3 == 0),))


def test_the_same_number_gives_the_same_task_in_any_order() -> None:
    whole = make(group=2).training(0, 60, seats_for)
    again = make(group=2)
    assert [again.training(number, 1, seats_for)[0] for number in reversed(range(60))] == whole[::-1]
    assert [task.id for task in whole] == list(range(60))
    assert len({task.seed for task in whole}) == 60
    for first in range(0, 60, 2):
        one, other = whole[first : first + 2]
        assert (one.game, one.group, one.game_seed) == (other.game, other.group, other.game_seed)


def test_streams_have_their_shares_and_the_matchmaker_counts_games_alone() -> None:
    asked: list[int] = []

    def ask(task: TaskId, game: str) -> tuple[Seat, ...]:
        asked.extend([task] if game == GAME else [])
        return SEATS

    counts = Counter(task.game for task in make(weight=3.0).training(0, 400, ask))
    assert counts[GAME] == pytest.approx(100, abs=2)
    assert asked == list(range(counts[GAME])), "learners take the seats of a game in turn, so no number may be left out"


def test_an_evaluation_has_the_games_and_every_held_out_row() -> None:
    plan = EvaluationPlan(line_ups=[(GAME, SEATS)] * 2, attempts=SEATS[:1], samples=2)
    made = make().evaluation(0, plan)
    assert [task.id - FIRST_EVALUATION_TASK for task in made] == list(range(8))
    assert [task.game for task in made] == [GAME] * 2 + ["tasks:held_out"] * 6
    assert [task.is_attempt for task in made] == [False] * 2 + [True] * 6


def test_an_order_that_learns_is_the_same_after_a_resume_at_any_update() -> None:
    def update(tasks: MixedTasks, first: int) -> list[Task]:
        made = tasks.training(first, 8, seats_for)
        tasks.absorb(played(task) for task in made)
        tasks.settle(before=first + 8)
        return made

    unbroken = make("adaptive", group=2)
    expected = [task for first in range(0, 80, 8) for task in update(unbroken, first)]
    broken, made = make("adaptive", group=2), []
    for first in range(0, 80, 8):
        state = json.loads(json.dumps(broken.state()))
        broken = make("adaptive", group=2)
        broken.load_state(state)
        made += update(broken, first)
    assert made == expected
    assert broken.state() == unbroken.state()
    assert broken.state()["tasks"]["orders"]["arithmetic"]["groups"] > 10


def test_rewards_from_the_log_reach_the_stream_that_they_are_of() -> None:
    tasks = make("adaptive", group=2)
    made = tasks.training(0, 8, seats_for)
    tasks.absorb_rewards({task.id: 1.0 for task in made})
    tasks.settle()
    attempts = sum(task.is_attempt for task in made)
    assert tasks.state()["tasks"]["groups"]["settled_before"] == attempts // 2


def test_a_checkpoint_of_other_streams_is_refused() -> None:
    with pytest.raises(ConfigError, match="the checkpoint has none, the run games and tasks"):
        make().load_state({})
