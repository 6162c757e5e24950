"""Tasks of tasksets: the same for the same number, groups attempt the same row, evaluation sees every row."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from ludus.config import TasksetConfig
from ludus.errors import ConfigError, StorageError
from ludus.records import Episode, EpisodeId, PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.tasks import EvaluationPlan, Taskset, TasksetTasks, load_taskset, protocol
from ludus.tasks.protocol import EVALUATION_STRIDE, FIRST_EVALUATION_TASK

SEATS = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)
PLAN = EvaluationPlan(attempts=SEATS[:1], samples=4)
Make = Callable[..., Taskset]


def seats_for(task: TaskId, game: str) -> tuple[Seat, ...]:
    return SEATS


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A taskset of numbered questions."""

    def make(name: str = "sums", count: int = 10, **settings: Any) -> Taskset:
        path = tmp_path / f"{name}.jsonl"
        rows = [{"prompt": f"{name} {i}", "answer": str(i), "tests": [i]} for i in range(count)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return load_taskset(TasksetConfig.model_validate({"path": str(path), "name": name, **settings}))

    return make


def played(task: Task, reward: float = 1.0, error: str = "") -> Episode:
    failed = Episode.failed(EpisodeId(f"e{task.id}"), task, error)
    return replace(failed, returns=(reward,))


def test_a_task_has_its_row_as_inputs(make: Make) -> None:
    tasks = TasksetTasks([make(order="sequential")], seed=3, group=2)
    made = tasks.training(4, 3, seats_for)
    assert [(task.id, task.game, task.group, task.inputs["row"]) for task in made] == [
        (4, "tasks:sums", "g2", 2),
        (5, "tasks:sums", "g2", 2),
        (6, "tasks:sums", "g3", 3),
    ]
    first, second, third = made
    assert first.inputs["prompt"] == "sums 2"
    assert first.inputs["tests"] == [2]
    assert first.seats == SEATS
    assert first.purpose == "train"
    assert first.seed != second.seed
    assert first.game_seed == second.game_seed != third.game_seed
    assert msgspec.json.decode(msgspec.json.encode(first.inputs)) == first.inputs


def test_the_matchmaker_is_asked_once_for_a_group(make: Make) -> None:
    asked: list[tuple[int, str]] = []

    def ask(task: TaskId, game: str) -> tuple[Seat, ...]:
        asked.append((task, game))
        return SEATS

    TasksetTasks([make()], seed=3, group=4).training(4, 4, ask)
    assert set(asked) == {(1, "tasks:sums")}


@pytest.mark.parametrize("order", ["sequential", "shuffle", "random", "adaptive"])
def test_the_same_number_gives_the_same_task_in_any_order(make: Make, order: str) -> None:
    whole = TasksetTasks([make(order=order)], seed=3, group=4).training(0, 80, seats_for)
    piecewise = TasksetTasks([make(order=order)], seed=3, group=4)
    made = {number: piecewise.training(number, 1, seats_for)[0] for number in reversed(range(80))}
    assert [made[number] for number in range(80)] == whole
    assert len({task.seed for task in whole}) == 80
    for first in range(0, 80, 4):
        assert len({task.inputs["row"] for task in whole[first : first + 4]}) == 1


def test_sets_are_mixed_by_weight_and_each_is_gone_through_whole(make: Make) -> None:
    tasks = TasksetTasks([make("a", 10), make("b", 5, weight=3.0)], seed=1)
    made = tasks.training(0, 400, seats_for)
    of_b = [task.inputs["row"] for task in made if task.game == "tasks:b"]
    assert len(of_b) == pytest.approx(300, abs=2)
    for first in range(0, 295, 5):
        assert sorted(of_b[first : first + 5]) == list(range(5))


def test_sets_of_one_run_have_different_orders(make: Make) -> None:
    tasks = TasksetTasks([make("a", 50), make("b", 50)], seed=1)
    made = tasks.training(0, 100, seats_for)
    orders = [[task.inputs["row"] for task in made if task.game == game] for game in ("tasks:a", "tasks:b")]
    assert orders[0] != orders[1]


def test_sets_of_the_same_name_are_refused(make: Make) -> None:
    with pytest.raises(ConfigError, match="two tasksets have the same name"):
        TasksetTasks([make("a")], seed=0, held_out=[make("a")])


def test_an_order_that_does_not_fit_is_refused_with_the_name_of_its_set(make: Make) -> None:
    with pytest.raises(ConfigError, match="taskset sums: order easy_to_hard needs a number 'difficulty'"):
        TasksetTasks([make(order="easy_to_hard")], seed=0)


# -- evaluation --------------------------------------------------------------------------------------------------------


def test_evaluation_attempts_every_held_out_row_as_often_as_asked(make: Make) -> None:
    tasks = TasksetTasks([make("a", 4)], seed=0, held_out=[make("b", 3), make("c", 2)])
    made = tasks.evaluation(2, PLAN)
    assert [task.id for task in made] == [FIRST_EVALUATION_TASK + 2 * EVALUATION_STRIDE + i for i in range(20)]
    assert [(task.game, task.inputs["row"]) for task in made[::4]] == [
        ("tasks:b", 0),
        ("tasks:b", 1),
        ("tasks:b", 2),
        ("tasks:c", 0),
        ("tasks:c", 1),
    ]
    assert {task.purpose for task in made} == {"evaluate"}
    assert len({task.group for task in made}) == 5
    assert len({task.group for task in made[:4]}) == 1
    assert len({task.seed for task in made}) == 20
    later = tasks.evaluation(3, PLAN)
    assert not {task.id for task in made} & {task.id for task in later}
    assert not {task.group for task in made} & {task.group for task in later}
    assert [task.game_seed for task in made] == [task.game_seed for task in later]
    assert tasks.evaluation(0, EvaluationPlan()) == []


def test_an_evaluation_that_would_meet_the_next_one_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = TasksetTasks([make()], seed=0, held_out=[make("b", 64)])
    monkeypatch.setattr(protocol, "EVALUATION_STRIDE", 127)
    with pytest.raises(ConfigError, match="an evaluation of more than 127 games and attempts is too large"):
        tasks.evaluation(0, EvaluationPlan(attempts=SEATS[:1], samples=2))


# -- feedback and state ------------------------------------------------------------------------------------------------


def test_orders_that_learn_nothing_remember_nothing(make: Make) -> None:
    tasks = TasksetTasks([make()], seed=0, group=2)
    made = tasks.training(0, 100, seats_for)
    tasks.absorb(played(task) for task in made)
    tasks.settle()
    assert tasks.state()["groups"] == {"open": [], "settled_before": 0, "settled": []}
    assert tasks.training(0, 100, seats_for) == made


def test_an_adaptive_order_learns_from_whole_groups_when_told_to(make: Make) -> None:
    tasks = TasksetTasks([make(order="adaptive")], seed=0, group=2)
    made = tasks.training(0, 6, seats_for)
    tasks.absorb([played(made[0], 1.0), played(made[1], 0.0), played(made[2], 1.0), played(made[4]), played(made[5])])
    assert tasks.state()["orders"]["sums"]["groups"] == 0
    tasks.settle(before=4)
    assert tasks.state()["orders"]["sums"]["groups"] == 1
    tasks.settle()
    assert tasks.state()["orders"]["sums"]["groups"] == 2
    tasks.absorb([played(made[3], 1.0)])
    tasks.settle()
    assert tasks.state()["orders"]["sums"]["groups"] == 3
    assert tasks.state()["groups"] == {"open": [], "settled_before": 3, "settled": []}


def test_episodes_that_failed_complete_their_group_and_say_nothing_of_the_task(make: Make) -> None:
    tasks = TasksetTasks([make(order="adaptive")], seed=0, group=2)
    made = tasks.training(0, 4, seats_for)
    tasks.absorb([played(made[0], error="EnvError: x"), played(made[1], 1.0)])
    tasks.absorb([played(made[2], float("nan")), played(made[3], error="EnvError: x")])
    tasks.settle()
    order = tasks.state()["orders"]["sums"]
    assert [entry[:3] for entry in order["rows"]] == [[made[0].inputs["row"], 1.0, 0.0]]
    assert tasks.state()["groups"]["settled_before"] == 2


def test_an_episode_counts_once_however_often_it_is_absorbed(make: Make) -> None:
    once, often = (TasksetTasks([make(order="adaptive")], seed=0, group=2) for _ in range(2))
    for tasks, times in ((once, 1), (often, 5)):
        episodes = [played(task, 0.5) for task in tasks.training(0, 4, seats_for)]
        for _ in range(times):
            tasks.absorb(reversed(episodes))
            tasks.settle()
    assert often.state() == once.state()


def test_evaluation_episodes_teach_the_order_nothing(make: Make) -> None:
    tasks = TasksetTasks([make(order="adaptive")], seed=0, held_out=[make("b")])
    before = tasks.state()
    tasks.absorb(played(task) for task in tasks.evaluation(0, PLAN))
    tasks.settle()
    assert tasks.state() == before


def test_the_tasks_of_a_settled_group_cannot_be_made_again(make: Make) -> None:
    tasks = TasksetTasks([make(order="adaptive")], seed=0)
    tasks.absorb([played(tasks.training(0, 1, seats_for)[0])])
    tasks.settle()
    with pytest.raises(StorageError, match="group g0 is settled already"):
        tasks.training(0, 1, seats_for)


def test_an_open_group_keeps_its_row_whatever_is_learnt_meanwhile_and_through_a_resume(make: Make) -> None:
    taskset = make(count=500, order={"kind": "adaptive", "candidates": 500})
    tasks = TasksetTasks([taskset], seed=0, group=2)
    opened = tasks.training(0, 200, seats_for)
    tasks.absorb(played(task, float(task.inputs["row"] % 2)) for task in opened[100:])
    tasks.settle()
    assert tasks.training(0, 100, seats_for) == opened[:100]
    resumed = TasksetTasks([taskset], seed=0, group=2)
    resumed.load_state(json.loads(json.dumps(tasks.state())))
    assert resumed.training(0, 100, seats_for) == opened[:100]
    assert resumed.training(200, 100, seats_for) == tasks.training(200, 100, seats_for)
    # What was learnt matters: without it, other rows would be chosen.
    assert TasksetTasks([taskset], seed=0, group=2).training(200, 100, seats_for) != tasks.training(200, 100, seats_for)
    assert resumed.state() == tasks.state()


@pytest.mark.parametrize(
    "change", [{"count": 9}, {"weight": 2.0}, {"processors": [{"kind": "map", "fields": {"prompt": "x{prompt}"}}]}]
)
def test_a_set_that_changed_is_refused_on_resume(make: Make, change: dict[str, Any]) -> None:
    saved = TasksetTasks([make("a"), make("b")], seed=0).state()
    resumed = TasksetTasks([make("a"), make("b", **change)], seed=0)
    with pytest.raises(ConfigError, match=r"the checkpoint is of other tasksets than these: b \(now \d+ rows\)"):
        resumed.load_state(saved)
    with pytest.raises(ConfigError, match=r"one is missing; bring the files back"):
        TasksetTasks([make("a")], seed=0).load_state(saved)


def test_a_state_that_cannot_be_is_refused(make: Make) -> None:
    tasks = TasksetTasks([make(order="adaptive")], seed=0)
    for groups in (
        {},
        {"open": [[1]], "settled_before": 0, "settled": []},
        {"open": 3, "settled_before": 0, "settled": []},
    ):
        with pytest.raises(StorageError, match="the saved groups of tasks cannot be read"):
            tasks.load_state({**tasks.state(), "groups": groups})


def test_a_custom_order_that_leaves_the_set_is_stopped(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from ludus.tasks import Fixed, register_curriculum
    from ludus.tasks.curricula import OWN

    class Beyond(Fixed):
        def choose(self, number: int) -> int:
            return 10

    monkeypatch.setattr(OWN, "added", {})
    register_curriculum("beyond", lambda rows, seed: Beyond())
    tasks = TasksetTasks([make(order={"kind": "custom", "name": "beyond"})], seed=0)
    with pytest.raises(ConfigError, match="taskset sums: its order chose row 10 of 10"):
        tasks.training(0, 1, seats_for)


def test_rewards_are_those_of_the_seat_that_learns(make: Make) -> None:
    tasks = TasksetTasks([make(order="adaptive")], seed=0)
    other = Seat(policy=PolicyRef(name=PolicyName("judge")))
    task = tasks.training(0, 1, lambda task, game: (other, *SEATS))[0]
    tasks.absorb([replace(played(task), returns=(0.0, 1.0))])
    tasks.settle()
    assert np.allclose(tasks.state()["orders"]["sums"]["rows"][0][1:3], [1.0, 0.0])


def test_the_last_attempt_of_a_group_is_greedy_and_orders_do_not_learn_from_it(make: Make) -> None:
    adaptive = make(order="adaptive")
    tasks, usual = TasksetTasks([adaptive], seed=3, group=3, greedy=True), TasksetTasks([adaptive], seed=3, group=2)
    made, others = tasks.training(0, 3, seats_for), usual.training(0, 2, seats_for)
    assert [task.seats[0].greedy for task in made] == [False, False, True]
    assert {task.inputs["row"] for task in made} == {task.inputs["row"] for task in others}
    tasks.absorb(played(task, reward) for task, reward in zip(made, (1.0, 0.0, 1.0), strict=True))
    usual.absorb(played(task, reward) for task, reward in zip(others, (1.0, 0.0), strict=True))
    tasks.settle()
    usual.settle()
    assert tasks.state()["orders"] == usual.state()["orders"]
