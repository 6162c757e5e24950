"""Tasks that nobody waits for any more: explorers are told, and what comes back of them all the same is dropped."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ludus.config import parse_config
from ludus.explore.messages import Cancel, GaveUp, Play, Played, StepLimits
from ludus.orchestrator.dispatcher import Delivery, Dispatcher
from ludus.records import Episode, Experiences, PolicyName, PolicyRef, Seat, Task, TaskId, episode_id
from ludus.runtime import Arrived, Lost
from ludus.storage.arrow import episodes_to_table, experiences_to_table, to_bytes
from ludus.testing.experiences import sample_experiences

SEATS = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),)


class Sent:
    """A supervisor that notes what workers are told."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []

    has_spare = False

    def start(self, spec: Any, *, is_needed: Any) -> None:
        pass

    def send(self, worker: str, message: Any) -> None:
        self.messages.append((worker, message))

    def of(self, kind: type) -> list[tuple[str, Any]]:
        return [(worker, message) for worker, message in self.messages if isinstance(message, kind)]


def make(workers: int = 1, slots: int = 1) -> tuple[Dispatcher, Sent]:
    sent = Sent()
    nothing = lambda *_, **__: None  # noqa: E731
    meters = SimpleNamespace(watch=nothing, watch_workers=nothing, add=nothing)
    context: Any = SimpleNamespace(
        supervisor=sent,
        launcher=sent,
        run=SimpleNamespace(path=Path("run")),
        config=parse_config("name: test\ngames: [g]\n", "test.yaml"),
        shape=SimpleNamespace(to_json=dict),
        plugins=(),
        lm_config="",
        telemetry=SimpleNamespace(meters=meters, event=nothing),
    )
    return Dispatcher(context, workers=workers, slots=slots), sent


def task(number: int) -> Task:
    return Task(id=TaskId(number), game="g", seed=number, seats=SEATS)


def played(*numbers: int) -> Arrived:
    ids = [episode_id("test", TaskId(number), 0) for number in numbers]
    made = [Episode.failed(id, task(number), "") for id, number in zip(ids, numbers, strict=True)]
    rows = sample_experiences([3] * len(numbers), tasks=numbers).replace(sequences={"episode": np.array(ids, object)})
    episodes = to_bytes(episodes_to_table(made))
    blob = memoryview(b"".join([episodes, to_bytes(experiences_to_table(rows))]))
    message = Played(episodes=len(made), episode_bytes=len(episodes), steps=0)
    return Arrived(worker="explorer-0", message=message, blob=blob)


def tasks_of(rows: Experiences) -> list[int]:
    return [int(number) for number in rows.sequences["task"]] if len(rows) else []


def test_what_is_cancelled_is_played_by_nobody_and_makes_room() -> None:
    dispatcher, sent = make()
    dispatcher.submit([task(number) for number in range(6)])  # three in hand, three wait
    dispatcher.cancel([1, 4])
    assert sent.of(Cancel) == [("explorer-0", Cancel(tasks=[1]))]
    assert [one.id for _, message in sent.of(Play) for one in message.tasks] == [0, 1, 2, 3]
    assert (dispatcher.running, dispatcher.running_for_training) == (4, 4)


def test_late_results_of_cancelled_tasks_are_dropped_and_counted() -> None:
    dispatcher, _ = make(slots=4)
    dispatcher.submit([task(number) for number in range(4)])
    dispatcher.cancel([1, 2])
    (delivery,) = dispatcher.absorb(played(0, 1, 2))
    assert isinstance(delivery, Delivery)
    assert [one.task.id for one in delivery.batch.episodes] == [0]
    assert delivery.episodes_table["task"].to_pylist() == [0]
    assert tasks_of(delivery.batch.experiences) == [0]
    assert (dispatcher.cuts.late, dispatcher.running, dispatcher.running_for_training) == (2, 1, 1)


def test_cancelled_tasks_of_a_lost_worker_are_not_given_out_again() -> None:
    dispatcher, sent = make(slots=4)
    dispatcher.submit([task(number) for number in range(3)])
    dispatcher.limit_steps(range(4), 7)
    dispatcher.cancel([1])
    sent.messages.clear()
    assert list(dispatcher.absorb(Lost(worker="explorer-0", reason="killed", task=0, log_tail=""))) == []
    assert [one.id for _, message in sent.of(Play) for one in message.tasks] == [0, 2]
    assert sent.of(StepLimits) == [("explorer-0", StepLimits(limits=[(0, 4, 7)]))]  # the new one knows them, too


def test_tasks_that_explorers_gave_up_are_kept_apart_until_they_are_cancelled() -> None:
    dispatcher, sent = make(slots=4)
    dispatcher.submit([task(number) for number in range(3)])
    dispatcher.limit_steps(range(3), 7)
    dispatcher.limit_steps(range(3), 7)  # known
    assert len(sent.of(StepLimits)) == 1
    list(dispatcher.absorb(Arrived(worker="explorer-0", message=GaveUp(tasks=[2]), blob=memoryview(b""))))
    assert (dispatcher.cuts.given_up, dispatcher.running, dispatcher.running_for_training) == ({2}, 2, 2)
    dispatcher.cancel([1, 2])
    assert (dispatcher.cuts.given_up, dispatcher.running_for_training) == (set(), 1)
    assert sent.of(Cancel) == [("explorer-0", Cancel(tasks=[1]))]


def test_a_step_limit_concerns_its_own_tasks_beyond_its_steps() -> None:
    limits = StepLimits(limits=[(0, 4, 7), (4, 8, 2)])
    assert limits.broken_by([(0, 7), (1, 8), (4, 2), (5, 3), (9, 1000)]) == [1, 5]
