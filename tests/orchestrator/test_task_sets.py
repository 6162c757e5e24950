"""Tasksets in the place of games."""

from ludus.config import TasksetConfig
from ludus.orchestrator.task_sets import TasksetGame, overlaps
from ludus.tasks import load_taskset


def game(name: str, path: str, *, is_held_out: bool) -> TasksetGame:
    return TasksetGame(taskset=load_taskset(TasksetConfig(path=path, name=name)), is_held_out=is_held_out)


def test_a_held_out_set_that_is_trained_on_is_named_with_how_much_of_it() -> None:
    trained = game("train", "ludus/arithmetic?digits=1&count=20", is_held_out=False)
    seen = game("seen", "ludus/arithmetic?digits=1&count=8", is_held_out=True)
    apart = game("apart", "ludus/arithmetic?digits=1&count=8&split=test", is_held_out=True)
    (line,) = overlaps([trained, seen, apart])
    assert line.startswith("8 of the 8 tasks of evaluate.tasks seen are trained on, too")
