"""What the loop saves is the state after the update it concluded, however far ahead the trainer is."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ludus.orchestrator.trainer_client import NAME, TrainerClient
from ludus.runtime import Arrived, Lost
from ludus.sources.protocol import Batch
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.run_directory import RunDirectory
from ludus.storage.tensors import load_tensors, save_tensors
from ludus.storage.traces import TraceLog, scan_frames, trace_files
from ludus.train.messages import LoaderReport, Saved, SaveInto, Trained, TrainerSetup, TrainOn

FILES = ("weights.safetensors", "optimizer.safetensors")


class FakeSupervisor:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.on_send: Any = lambda message: None

    def send(self, worker: str, message: Any, blob: Any = b"") -> None:
        self.sent.append(message)
        self.on_send(message)


class FakeWorkers:
    """Brings the events that a test puts into it, one at a time."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.listener: Any = None
        self.waits: list[float] = []

    def listen(self, listener: Any) -> None:
        self.listener = listener

    def serve(self, timeout_s: float) -> None:
        self.waits.append(timeout_s)
        if self.events:
            self.listener(self.events.pop(0))


class Client:
    """An asynchronous trainer client with everything around it faked but the files."""

    def __init__(self, folder: Path, schedule: str = "async", model: object = None) -> None:
        self.supervisor, self.workers = FakeSupervisor(), FakeWorkers()
        self.checkpoints = CheckpointStore(folder / "checkpoints", keep=3)
        league = SimpleNamespace(opponents=())
        config = SimpleNamespace(
            model_dump_json=lambda: "{}",
            schedule=schedule,
            policy=SimpleNamespace(model=model),
            mode="both",
            publish_interval=1,
            seed=0,
            league=league,
            buffer=SimpleNamespace(loader=None),
        )
        telemetry = SimpleNamespace(
            event=lambda *args, **fields: None, meters=SimpleNamespace(add=lambda *args, **fields: None)
        )
        context: Any = SimpleNamespace(
            supervisor=self.supervisor,
            telemetry=telemetry,
            config=config,
            shape=SimpleNamespace(to_json=dict),
            run=RunDirectory(folder),
            start=None,
            plugins=(),
        )
        milestones: Any = SimpleNamespace(share_done=0.0)
        self.traces = TraceLog(folder / "traces", keep_bytes=1_000_000)
        store: Any = SimpleNamespace(checkpoints=self.checkpoints, traces=self.traces)
        workers: Any = self.workers
        self.trainer = TrainerClient(context, store, workers, milestones)

    def order(self) -> None:
        self.trainer._order(Batch(is_pulled=True))

    def answer(self, update: int) -> None:
        """Do what a trainer does: write the state, then say so."""
        orders = [each for each in self.supervisor.sent if isinstance(each, TrainOn) and each.update == update]
        for name in FILES:
            save_tensors(self.checkpoints.directory / orders[-1].staging / name, {"after": np.array([update])})
        message = Trained(update=update, metrics={}, seconds=0.0)
        self.workers.events.append(Arrived(worker=NAME, message=message, blob=memoryview(b"traces")))
        self.workers.serve(0.0)

    def saved(self, update: int) -> int:
        staging = self.checkpoints.stage(update)
        self.trainer.save(staging)
        number = int(load_tensors(staging / FILES[0])["after"][0])
        self.checkpoints.commit(staging, update, {})
        return number


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def test_a_trainer_that_is_ahead_does_not_change_what_is_saved(client: Client) -> None:
    client.order()
    client.order()
    client.answer(1)
    client.answer(2)
    assert client.trainer.in_flight == 2
    assert client.trainer.step(None) is not None
    assert client.saved(1) == 1
    assert client.trainer.step(None) is not None
    assert client.saved(2) == 2
    assert client.saved(3) == 2, "nothing was concluded since"
    assert not list(client.checkpoints.directory.glob(".tmp-*"))


def test_a_replacement_starts_from_the_newest_answer_and_gets_the_open_orders(client: Client) -> None:
    for _ in range(3):
        client.order()
    client.answer(1)
    client.answer(2)
    client.trainer.step(None)
    client.supervisor.sent.clear()
    client.workers.events.append(Lost(worker=NAME, reason="killed", task=None, log_tail=""))
    client.workers.serve(0.0)
    setup, again = client.supervisor.sent
    assert isinstance(setup, TrainerSetup)
    base = client.checkpoints.directory / setup.checkpoint
    assert load_tensors(base / FILES[0])["after"].tolist() == [2]
    assert again.update == 3
    client.answer(3)
    assert not base.exists()


def test_traces_are_those_of_the_updates_that_the_loop_took(client: Client) -> None:
    client.order()
    client.order()
    client.answer(1)
    client.answer(2)
    client.trainer.step(None)
    (path,) = trace_files(client.traces.directory)
    assert [frame.update for frame in scan_frames(path)] == [1]


def test_an_answer_that_nobody_waits_for_changes_nothing(client: Client) -> None:
    client.order()
    client.answer(1)
    for update in (1, 2):  # repeated, and never ordered
        message = Trained(update=update, metrics={}, seconds=0.0)
        client.workers.events.append(Arrived(worker=NAME, message=message, blob=memoryview(b"")))
        client.workers.serve(0.0)
    assert client.trainer.in_flight == 1
    client.order()
    client.answer(2)
    client.trainer.step(None)
    client.trainer.step(None)
    assert client.saved(2) == 2


def test_an_answer_to_an_order_that_was_given_anew_counts_no_more(client: Client) -> None:
    """The loss of another trainer replaces this one, too, whose last answer is on its way then."""
    client.order()
    (order,) = [each for each in client.supervisor.sent if isinstance(each, TrainOn)]
    lost = Lost(worker=NAME, reason="killed", task=None, log_tail="")
    late = Trained(update=1, staging=order.staging, metrics={}, seconds=0.0)
    client.workers.events += [lost, Arrived(worker=NAME, message=late, blob=memoryview(b""))]
    client.workers.serve(0.0)
    client.workers.serve(0.0)
    assert client.trainer.step(None) is None
    client.answer(1)
    assert client.trainer.step(None) is not None


def test_without_a_batch_the_client_waits_for_workers_instead_of_spinning(client: Client) -> None:
    assert client.trainer.step(None) is None
    assert client.workers.waits[-1] > 0
    client.order()
    assert client.trainer.step(None) is None
    assert client.workers.waits[-1] > 0


def report(client: Client, *, update: int, new_sequences: int) -> int:
    """A report arrives; returns what the loop takes as new."""
    message = LoaderReport(update=update, new_sequences=new_sequences)
    client.workers.events.append(Arrived(worker=NAME, message=message, blob=memoryview(b"")))
    client.workers.serve(0.0)
    return client.trainer.loader.new_sequences


def test_a_report_from_before_an_order_does_not_count_what_the_order_admits(client: Client) -> None:
    assert report(client, update=0, new_sequences=12) == 12
    client.trainer._order(Batch(is_pulled=True, admits=12))
    assert report(client, update=0, new_sequences=12) == 0, "sent before the trainer got the order"
    client.answer(1)
    assert report(client, update=0, new_sequences=12) == 0
    assert report(client, update=1, new_sequences=3) == 3
    client.workers.events.append(Lost(worker=NAME, reason="killed", task=None, log_tail=""))
    client.workers.serve(0.0)
    setup = client.supervisor.sent[-1]
    assert isinstance(setup, TrainerSetup)
    assert setup.update == 1


def test_a_language_model_writes_its_state_when_asked_and_a_replacement_repeats_the_updates_since(
    tmp_path: Path,
) -> None:
    client = Client(tmp_path, "sync", object())
    trainer, sent = client.trainer, client.supervisor.sent

    def answers_save() -> None:
        (order,) = [each for each in sent if isinstance(each, SaveInto)][-1:]
        folder = client.checkpoints.directory / order.staging
        for name in FILES[: 1 if order.only_weights else 2]:
            save_tensors(folder / name, {"after": np.array([trainer._ordered])})
        client.workers.events.append(Arrived(worker=NAME, message=Saved(staging=order.staging), blob=memoryview(b"")))

    def update(number: int) -> None:
        client.order()
        client.workers.events.append(
            Arrived(worker=NAME, message=Trained(update=number, metrics={}, seconds=0.0), blob=memoryview(b""))
        )
        assert trainer.step(None) is not None

    client.supervisor.on_send = lambda message: answers_save() if isinstance(message, SaveInto) else None
    update(1)
    update(2)
    assert [each.staging for each in sent if isinstance(each, TrainOn)] == ["", ""], "updates write nothing"
    assert client.saved(2) == 2
    update(3)
    assert trainer.weights()["after"].tolist() == [3], "a version needs no optimizer"
    update(4)
    client.order()
    before = len(sent)
    client.workers.listener(Lost(worker=NAME, reason="killed", task=None, log_tail=""))
    setup, *repeated = sent[before:]
    assert (setup.checkpoint, setup.update) == ("00000002", 2)
    assert [each.update for each in repeated] == [3, 4, 5]
    for number in (3, 4):
        message = Trained(update=number, metrics={}, seconds=0.0)
        client.workers.listener(Arrived(worker=NAME, message=message, blob=memoryview(b"")))
    assert trainer.in_flight == 1, "what is known already is not taken twice"
    client.workers.listener(
        Arrived(worker=NAME, message=Trained(update=5, metrics={}, seconds=0.0), blob=memoryview(b""))
    )
    assert trainer.step(None) is not None
    assert client.saved(5) == 5
