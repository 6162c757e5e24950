"""What a run plays and attempts, and the stream of tasks that is made from it."""

from ludus.config import TasksetConfig
from ludus.orchestrator.check_parts import Playables, overlaps
from ludus.tasks import Taskset, load_taskset


def taskset(name: str, path: str) -> Taskset:
    return load_taskset(TasksetConfig(path=path, name=name))


def test_a_held_out_set_that_is_trained_on_is_named_with_how_much_of_it() -> None:
    trained = taskset("train", "ludus/arithmetic?digits=1&count=20")
    seen = taskset("seen", "ludus/arithmetic?digits=1&count=8")
    apart = taskset("apart", "ludus/arithmetic?digits=1&count=8&split=test")
    (line,) = overlaps(Playables(tasksets=[trained], held_out=[seen, apart]))
    assert line.startswith("8 of the 8 tasks of evaluate.tasks seen are trained on, too")
