"""Tasks that wait for an explorer: whose turn it is."""

from ludus.orchestrator.dispatcher import Waiting
from ludus.records import PolicyName, PolicyRef, Seat, Task, TaskId

SEATS = (Seat(policy=PolicyRef(name=PolicyName("main"))),)


def task(number: int, purpose: str = "train") -> Task:
    return Task(id=TaskId(number), purpose=purpose, game="g", seed=number, seats=SEATS)  # type: ignore[arg-type]


def taken(waiting: Waiting) -> list[int]:
    return [waiting.take().id for _ in range(len(waiting))]


def test_neither_purpose_waits_for_a_block_of_the_other() -> None:
    waiting = Waiting()
    waiting.add([task(n, "evaluate") for n in range(100, 103)])
    waiting.add([task(n) for n in range(5)])
    assert taken(waiting) == [100, 0, 101, 1, 102, 2, 3, 4]


def test_what_is_put_back_comes_first_in_its_order() -> None:
    waiting = Waiting()
    waiting.add([task(n) for n in range(4)])
    assert [waiting.take().id, waiting.take().id] == [0, 1]
    waiting.put_back([task(0), task(1)])
    assert {each.id for each in waiting} == {0, 1, 2, 3}
    assert taken(waiting) == [0, 1, 2, 3]
