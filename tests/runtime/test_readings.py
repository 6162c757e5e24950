"""What is told of workers and nodes: loads from two readings, and transfers of versions."""

from __future__ import annotations

from ludus.runtime import LoadMeter, NodeReading, WorkerReading, with_loads
from ludus.runtime.ray.messages import Sent
from ludus.runtime.ray.transfers import MOST_FOLDERS, Transfers


def test_load_is_cpu_time_over_the_last_second_and_begins_anew_with_every_start() -> None:
    now = [0.0]
    meter = LoadMeter(lambda: now[0])

    def look(at: float, cpu_s: float | None, starts: int = 1) -> dict[str, float]:
        now[0] = at
        return meter.update([WorkerReading(name="w", starts=starts, cpu_s=cpu_s)])

    assert look(0.0, 5.0) == {}
    assert look(1.0, 5.5) == {"w": 0.5}
    assert look(2.0, 6.5) == {"w": 1.0}
    assert look(2.25, 6.75) == {"w": 1.0}
    assert look(3.5, 0.25, starts=2) == {}
    assert look(4.5, 0.75, starts=2) == {"w": 0.5}
    assert look(5.5, None, starts=2) == {}


def test_a_node_has_the_load_that_workers_on_it_tell_of() -> None:
    workers = [WorkerReading(name="a", node="n1", node_load=0.25), WorkerReading(name="b", node="n2")]
    shown = with_loads([NodeReading(name="n1"), NodeReading(name="n2"), NodeReading(name="n3")], workers)
    assert [(node.name, node.load) for node in shown] == [("n1", 0.25), ("n2", None), ("n3", None)]


def send(transfers: Transfers, version: int, node: str) -> None:
    for file in ("policy.json", "weights.safetensors"):
        transfers.add(Sent(node=node, name=f"policies/main/{version:08d}/{file}", size=10))


def test_a_version_counts_once_for_each_node_and_once_more_when_it_is_sent_again() -> None:
    transfers = Transfers()
    assert transfers.metrics() == {}
    for node in ("n1", "n2"):
        send(transfers, 1, node)
    send(transfers, 2, "n1")
    expected = {"runtime/transfers_per_version": 2.0, "runtime/files_sent": 6.0, "runtime/files_sent_again": 0.0}
    assert transfers.metrics() == expected
    send(transfers, 1, "n2")
    assert transfers.metrics()["runtime/transfers_per_version"] == 3.0
    assert transfers.metrics()["runtime/files_sent_again"] == 2.0


def test_few_versions_are_remembered() -> None:
    transfers = Transfers()
    for version in range(100):
        send(transfers, version, "n1")
    remembered = [version for version in range(100) if transfers.of(f"policies/main/{version:08d}")]
    assert remembered == list(range(100 - MOST_FOLDERS, 100))
