"""Workers on nodes of a cluster that have, or lack, what they need."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ludus.errors import WorkerError
from ludus.runtime import Supervisor, WorkerSpec, with_loads
from ludus.runtime.needs import Needs, Plan, Wanted
from ludus.runtime.ray import Cluster, RayLauncher

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

NODES = (
    {"num_cpus": 2, "labels": {"zone": "a"}},
    {"num_cpus": 2, "labels": {"zone": "b"}, "resources": {"disk": 1}, "num_gpus": 1},
)
DISK = Needs(cpus=1, resources={"disk": 1})
GPU = Needs(cpus=1, gpus=1, labels={"zone": "!a"})
ZONE_A = Needs(cpus=1, labels={"zone": "in(a, c)"})


class Command(msgspec.Struct, tag="command"):
    what: str
    task: int = 0


class Echo(msgspec.Struct, tag="echo"):
    text: str
    pid: int = 0


@pytest.fixture
def varied(make_cluster: Callable[..., Any]) -> Any:
    return make_cluster(*NODES)


def make_supervisor(
    tmp_path: Path, cluster: Any, workers: dict[str, Needs], told: list[Any]
) -> tuple[Supervisor, RayLauncher]:
    plan = Plan(workers=[Wanted(name=name, needs=needs) for name, needs in workers.items()])

    def tell(kind: str, **fields: Any) -> None:
        told.append((kind, fields))

    joined = Cluster(tmp_path / "ray.log", address=cluster.address, plan=plan, tell=tell)
    launcher = RayLauncher(None, joined)
    return Supervisor(tmp_path, max_restarts=0, launcher=launcher), launcher


def start(supervisor: Supervisor, name: str, needs: Needs) -> None:
    supervisor.start(WorkerSpec(name=name, module="scripted_worker", replies=Echo, needs=needs))


def poll_until(supervisor: Supervisor, holds: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        supervisor.poll(0.05)


def test_workers_run_on_the_nodes_that_have_what_they_need(varied: Any, tmp_path: Path) -> None:
    workers, told = {"disk": DISK, "gpu": GPU, "zone": ZONE_A}, []  # type: ignore[var-annotated]
    supervisor, launcher = make_supervisor(tmp_path, varied, workers, told)
    try:
        for name, needs in workers.items():
            start(supervisor, name, needs)
        poll_until(supervisor, lambda: all(supervisor.process(name).node for name in workers))
        nodes = {name: supervisor.process(name).node for name in workers}
        assert nodes["disk"] == nodes["gpu"] != nodes["zone"]
        placed = [(fields["worker"], fields["node"]) for kind, fields in told if kind == "worker_placed"]
        assert dict(placed) == nodes
        assert len(placed) == len(workers)
        poll_until(supervisor, lambda: all(each.node_load is not None for each in supervisor.read()))
        poll_until(supervisor, lambda: len(launcher.nodes()) == 3)
        shown = with_loads(launcher.nodes(), supervisor.read())
        assert {node.name: (node.cpus, node.gpus) for node in shown if node.load is not None} == {
            nodes["gpu"]: (2.0, 1.0),
            nodes["zone"]: (2.0, 0.0),
        }
    finally:
        supervisor.stop()


@pytest.mark.parametrize(
    ("workers", "sentence"),
    [
        ({"trainer": Needs(cpus=1, gpus=4)}, r"trainer needs 1 CPU and 4 GPU, and no node has that: .*has 2 CPU"),
        ({"w": Needs(cpus=1, labels={"zone": "d"})}, r"w needs 1 CPU and label zone=d, and no node has that"),
        (
            {"explorer-0": ZONE_A, "explorer-1": ZONE_A, "explorer-2": ZONE_A},
            r"explorer-2 would find no room beside the others",
        ),
    ],
)
def test_what_no_node_has_is_refused_before_anything_is_started(
    varied: Any, tmp_path: Path, workers: dict[str, Needs], sentence: str
) -> None:
    supervisor, _ = make_supervisor(tmp_path, varied, workers, [])
    begun = time.monotonic()
    with pytest.raises(WorkerError, match=sentence):
        start(supervisor, *next(iter(workers.items())))
    assert time.monotonic() - begun < 10.0
    supervisor.stop()


def test_of_a_group_all_begin_or_none(varied: Any, tmp_path: Path) -> None:
    rank = Needs(cpus=1, group="rank")
    told: list[Any] = []
    supervisor, _ = make_supervisor(tmp_path, varied, {f"rank-{number}": rank for number in range(3)}, told)
    try:
        for number in range(2):
            start(supervisor, f"other-{number}", Needs(cpus=1))
        poll_until(supervisor, lambda: all(supervisor.process(f"other-{number}").node for number in range(2)))
        for number in range(3):
            start(supervisor, f"rank-{number}", rank)
        poll_until(supervisor, lambda: sum(kind == "worker_waits" for kind, _ in told) == 3)
        reasons = [fields["reason"] for kind, fields in told if kind == "worker_waits"]
        assert "all or none of rank-0, rank-1 and rank-2 begin, and each needs 1 CPU" in reasons[0]
        assert not any(supervisor.process(f"rank-{number}").node for number in range(3))
        supervisor.dismiss("other-0")
        poll_until(supervisor, lambda: all(supervisor.process(f"rank-{number}").node for number in range(3)))
        for number in range(3):  # one is lost: all are started again, in the places that are kept for them
            supervisor.dismiss(f"rank-{number}")
        for number in range(3):
            start(supervisor, f"rank-{number}", rank)
        poll_until(supervisor, lambda: all(supervisor.process(f"rank-{number}").node for number in range(3)))
    finally:
        supervisor.stop()


def test_a_worker_for_which_there_is_no_room_now_says_what_it_waits_for(varied: Any, tmp_path: Path) -> None:
    told: list[Any] = []
    supervisor, _ = make_supervisor(tmp_path, varied, {}, told)
    try:
        start(supervisor, "first", GPU)
        poll_until(supervisor, lambda: supervisor.process("first").node)
        start(supervisor, "second", GPU)
        poll_until(supervisor, lambda: any(kind == "worker_waits" for kind, _ in told))
        assert (
            "second has not begun yet, and waits for room: it needs 1 CPU, 1 GPU and label zone=!a"
            in told[-1][1]["reason"]
        )
        supervisor.dismiss("first")
        poll_until(supervisor, lambda: supervisor.process("second").node)
    finally:
        supervisor.stop()
