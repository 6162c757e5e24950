"""What the loop saves is the state after the update it concluded, however far ahead the trainer is."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ludus.orchestrator.trainer_client import FILES, NAME, TrainerClient
from ludus.records import Experiences
from ludus.runtime import Arrived, Lost
from ludus.storage.checkpoints import CheckpointStore
from ludus.train.messages import Trained, TrainerSetup, TrainOn


class FakeSupervisor:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, worker: str, message: Any, blob: Any = b"") -> None:
        self.sent.append(message)


@pytest.fixture
def rooms(tmp_path: Path) -> Any:
    return SimpleNamespace(
        supervisor=FakeSupervisor(),
        checkpoints=CheckpointStore(tmp_path / "checkpoints", keep=3),
        telemetry=SimpleNamespace(event=lambda *args, **fields: None),
        config=SimpleNamespace(model_dump_json=lambda: "{}"),
        shape=SimpleNamespace(to_json=dict),
        start=None,
    )


def order(proxy: TrainerClient, update: int) -> None:
    proxy.order(update=update, seed=0, progress=0.0, experiences=Experiences.empty(), claim=update)


def answer(proxy: TrainerClient, rooms: Any, update: int) -> Any:
    """Do what a trainer does: write the state, then say so."""
    sent = [message for message in rooms.supervisor.sent if isinstance(message, TrainOn) and message.update == update]
    for name in FILES:
        (Path(sent[-1].staging) / name).write_text(f"after {update}")
    message = Trained(update=update, metrics={}, seconds=0.0)
    ((done, _),) = proxy.absorb(Arrived(worker=NAME, message=message, blob=memoryview(b"")))
    return done


def saved_text(proxy: TrainerClient, rooms: Any, update: int) -> str:
    staging = rooms.checkpoints.stage(update)
    proxy.save(staging, lambda timeout_s: None)
    text = (staging / FILES[0]).read_text()
    rooms.checkpoints.commit(staging, update, {})
    return text


def test_a_trainer_that_is_ahead_does_not_change_what_is_saved(rooms: Any) -> None:
    proxy = TrainerClient(rooms)
    order(proxy, 1)
    order(proxy, 2)
    first, second = answer(proxy, rooms, 1), answer(proxy, rooms, 2)
    proxy.conclude(first)
    assert saved_text(proxy, rooms, 1) == "after 1"
    proxy.conclude(second)
    assert saved_text(proxy, rooms, 2) == "after 2"
    assert saved_text(proxy, rooms, 3) == "after 2", "nothing was concluded since"
    assert not list(rooms.checkpoints.directory.glob(".tmp-*"))


def test_a_replacement_starts_from_the_newest_answer_and_gets_the_open_orders(rooms: Any) -> None:
    proxy = TrainerClient(rooms)
    for update in (1, 2, 3):
        order(proxy, update)
    first = answer(proxy, rooms, 1)
    answer(proxy, rooms, 2)
    proxy.conclude(first)
    rooms.supervisor.sent.clear()
    list(proxy.absorb(Lost(worker=NAME, reason="killed", task=None, log_tail="")))
    setup, again = rooms.supervisor.sent
    assert isinstance(setup, TrainerSetup)
    assert (Path(setup.checkpoint) / FILES[0]).read_text() == "after 2"
    assert again.update == 3
    answer(proxy, rooms, 3)
    assert not Path(setup.checkpoint).exists()
