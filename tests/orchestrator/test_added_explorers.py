"""Explorers that come while there is room for them, and go for good when they are lost."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ludus.config import parse_config
from ludus.explore.messages import Play
from ludus.orchestrator.dispatcher import TASKS_PER_SLOT, Dispatcher
from ludus.records import PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.runtime import Lost


class Room:
    """A supervisor with room for so many more workers; notes who is started and what they are told."""

    def __init__(self, spare: int) -> None:
        self.spare = spare
        self.needed: dict[str, Callable[[], bool]] = {}
        self.given: dict[str, list[int]] = {}
        self.worn: set[str] = set()

    @property
    def has_spare(self) -> bool:
        return self.spare > 0

    def may_start(self, name: str) -> bool:
        return name not in self.worn

    def start(self, spec: Any, *, is_needed: Callable[[], bool]) -> None:
        self.spare -= len(self.needed) >= 1  # the first is the one that is there anyway
        self.needed[spec.name] = is_needed

    def send(self, worker: str, message: Any) -> None:
        if isinstance(message, Play):
            self.given.setdefault(worker, []).extend(int(task.id) for task in message.tasks)


def make(room: Room, *, most: int) -> Dispatcher:
    nothing = lambda *_, **__: None  # noqa: E731
    meters = SimpleNamespace(watch=nothing, watch_workers=nothing, add=nothing)
    context: Any = SimpleNamespace(
        supervisor=room,
        launcher=room,
        run=SimpleNamespace(path=Path("run")),
        config=parse_config("name: test\ngames: [g]\n", "test.yaml"),
        shape=SimpleNamespace(to_json=dict),
        plugins=(),
        lm_config="",
        telemetry=SimpleNamespace(meters=meters, event=nothing),
    )
    return Dispatcher(context, workers=1, slots=1, most_workers=most)


def tasks(*numbers: int) -> list[Task]:
    seats = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)
    return [Task(id=TaskId(number), game="g", seed=number, seats=seats) for number in numbers]


def lose(dispatcher: Dispatcher, worker: str, *, is_replaced: bool) -> None:
    lost = Lost(worker=worker, reason="its node has died", task=None, log_tail="", is_replaced=is_replaced)
    assert list(dispatcher.absorb(lost)) == []


def test_explorers_are_added_up_to_the_maximum_and_get_tasks() -> None:
    room = Room(spare=5)
    dispatcher = make(room, most=3)
    dispatcher.submit(tasks(*range(9)))
    assert list(room.needed) == ["explorer-0", "explorer-1", "explorer-2"]
    assert {name: len(given) for name, given in room.given.items()} == dict.fromkeys(room.needed, TASKS_PER_SLOT)


def test_none_is_added_without_room_or_without_a_maximum() -> None:
    for room, most in ((Room(spare=0), 3), (Room(spare=3), 0)):
        make(room, most=most).submit(tasks(*range(9)))
        assert list(room.needed) == ["explorer-0"]


def test_what_an_explorer_that_is_gone_had_is_played_by_the_others_once() -> None:
    room = Room(spare=1)
    dispatcher = make(room, most=2)
    dispatcher.submit(tasks(*range(2)))
    had = room.given["explorer-1"]
    assert room.needed["explorer-1"]() is False  # there are more than explore.workers

    lose(dispatcher, "explorer-1", is_replaced=False)

    assert sorted(room.given["explorer-0"]) == [0, 1]
    assert had == [1]
    assert dispatcher.running == 2
    assert room.needed["explorer-0"]()  # the last one that must be there


def test_an_explorer_comes_back_under_its_name_when_there_is_room_again() -> None:
    room = Room(spare=1)
    dispatcher = make(room, most=2)
    dispatcher.submit(tasks(*range(2)))
    room.needed.pop("explorer-1")
    lose(dispatcher, "explorer-1", is_replaced=False)
    room.spare = 1
    room.worn.add("explorer-1")
    dispatcher.submit(tasks(2))
    assert "explorer-1" not in room.needed  # it was lost too often of late
    room.worn.clear()
    dispatcher.submit(tasks(3))
    assert "explorer-1" in room.needed
