"""Clusters that are joined or started: each bad situation is one sentence within seconds, and leaves nothing behind."""

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ludus import SingleRun, parse_config
from ludus.errors import ConfigError, WorkerError
from ludus.runtime import Arrived, Lost, Supervisor, WorkerSpec
from ludus.runtime.ray import Cluster, NodeQuestion, RayLauncher
from ludus.runtime.ray.connection_client import ConnectionClient

BAD_INPUT_S = 10.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
"""Ten seconds; more where others keep the machine busy."""


class Command(msgspec.Struct, tag="command"):
    what: str
    task: int = 0


class Echo(msgspec.Struct, tag="echo"):
    text: str
    pid: int = 0


def refusal(tmp_path: Path, address: str, *asks: NodeQuestion) -> str:
    """Why a cluster cannot be joined; it must be told in time, and no process may stay."""
    started = time.monotonic()
    with pytest.raises(WorkerError) as raised:
        ConnectionClient(tmp_path / "ray.log", address=address, asks=asks)
    assert time.monotonic() - started < BAD_INPUT_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert (
        "ludus.runtime.ray"
        not in subprocess.run(
            ["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
        ).stdout
    )
    return str(raised.value)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ludus.extras.is_installed", lambda package: package != "ray")
    text = "name: any\ngames: [open_spiel:tic_tac_toe]\nruntime: ray\n"
    with pytest.raises(ConfigError) as raised:
        SingleRun(parse_config(text, "run.yaml"), tmp_path / "run")
    assert str(raised.value) == "runtime: ray needs ray; install with: pip install 'ludus-rl[ray]'"
    assert not (tmp_path / "run").exists()


def test_importing_the_launcher_does_not_import_ray() -> None:
    code = "import sys, ludus.runtime.ray; print('ray' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"


def test_an_address_where_nobody_listens_is_refused(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert f"no Ray cluster at {address}" in refusal(tmp_path, address)


@pytest.mark.ray
def test_an_address_where_something_else_listens_is_refused(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "answered within" in refusal(tmp_path, f"127.0.0.1:{other.getsockname()[1]}")


@pytest.mark.ray
def test_a_token_that_the_cluster_does_not_take_is_named(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").write_text("f" * 64)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "other"))
    assert "does not take our token" in refusal(tmp_path, cluster.address)


@pytest.mark.ray
def test_a_node_with_another_ludus_is_named(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import ludus\nludus.__version__ = '0.0.9'\n")
    monkeypatch.setenv("PYTHONPATH", str(other))  # of the connection, which comes after the cluster
    said = refusal(tmp_path, cluster.address)
    assert "ludus 0.1.0" in said
    assert "this machine Ray 2.60.0" in said


@pytest.mark.ray
def test_an_engine_that_a_node_lacks_is_named_before_anything_is_trained(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "bin" / "my_engine"
    engine.parent.mkdir()
    engine.write_text("#!/bin/sh\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engine.parent}{os.pathsep}{os.environ['PATH']}")  # of this machine, not of the nodes
    text = """
name: any
games: [chess:standard]
topology: split
policy: {network: {kind: mlp, hidden: [8]}}
evaluate: {against: ["uci:my_engine?nodes=1"]}
train: {steps: 1000}
"""
    config = parse_config(f"{text}runtime: {{kind: ray, address: '{cluster.address}'}}\n", "run.yaml")
    run = SingleRun(config, tmp_path / "run")
    with pytest.raises(WorkerError, match=r"node [0-9.]+.*'uci:my_engine\?nodes=1': no program 'my_engine'"):
        run.run_to_end()
    assert not any((tmp_path / "run" / "checkpoints").iterdir())


@pytest.mark.ray
def test_a_model_that_a_node_cannot_have_is_named(cluster: Any, tmp_path: Path) -> None:
    ask = NodeQuestion(module="ludus.lm.node_models", values=["nobody/such-a-model"])
    said = refusal(tmp_path, cluster.address, ask)
    assert "it cannot have nobody/such-a-model: it is not in the cache, and the hub cannot be reached" in said


@pytest.mark.ray
def test_a_worker_of_a_removed_node_is_replaced_on_another(cluster: Any, tmp_path: Path) -> None:
    supervisor = Supervisor(
        tmp_path, max_restarts=5, launcher=RayLauncher(None, Cluster(tmp_path / "ray.log", address=cluster.address))
    )
    try:
        for name in ("first", "second"):  # two, because one node alone must have room for them
            supervisor.start(WorkerSpec(name=name, module="scripted_worker", replies=Echo, stall_s=30.0))
            echo(supervisor, name)
        cluster.remove_node(0)
        lost: list[Lost] = []
        end = time.monotonic() + 60.0
        while not lost and time.monotonic() < end:
            lost = [event for event in supervisor.poll(0.05) if isinstance(event, Lost)]
        assert "its node has died" in lost[0].log_tail
        assert echo(supervisor, "first").text == echo(supervisor, "second").text == "hello"
    finally:
        supervisor.stop()


@pytest.mark.ray
def test_a_worker_whose_only_node_is_removed_waits_for_another(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster({"num_cpus": 1})
    supervisor = Supervisor(
        tmp_path, max_restarts=1, launcher=RayLauncher(None, Cluster(tmp_path / "ray.log", address=cluster.address))
    )
    try:
        supervisor.start(WorkerSpec(name="first", module="scripted_worker", replies=Echo, stall_s=30.0))
        echo(supervisor, "first")
        cluster.remove_node(0)
        lost: list[Lost] = []
        end = time.monotonic() + 60.0
        while not lost and time.monotonic() < end:
            lost = [event for event in supervisor.poll(0.05) if isinstance(event, Lost)]
        assert lost
        cluster.add_node(num_cpus=1)
        assert echo(supervisor, "first").text == "hello", "it is not lost again meanwhile"
    finally:
        supervisor.stop()


@pytest.mark.ray
def test_a_worker_that_fits_nowhere_is_named_with_what_it_needs(cluster: Any, tmp_path: Path) -> None:
    supervisor = Supervisor(
        tmp_path, max_restarts=0, launcher=RayLauncher(None, Cluster(tmp_path / "ray.log", address=cluster.address))
    )
    supervisor.start(WorkerSpec(name="large", module="scripted_worker", replies=Echo, threads=64))
    try:
        with pytest.raises(WorkerError, match="large needs 64 CPU, and no node has that"):
            poll_for(supervisor, 60.0)
    finally:
        supervisor.stop()


def poll_for(supervisor: Supervisor, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        supervisor.poll(0.05)


def echo(supervisor: Supervisor, worker: str) -> Echo:
    supervisor.send(worker, Command(what="echo"), b"hello")
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        for event in supervisor.poll(0.05):
            if isinstance(event, Lost):
                supervisor.send(event.worker, Command(what="echo"), b"hello")
            elif isinstance(event, Arrived) and event.worker == worker and isinstance(event.message, Echo):
                return event.message
    raise AssertionError("no answer")


@pytest.mark.ray
def test_a_cluster_that_is_started_has_a_token_that_its_owner_alone_reads(tmp_path: Path) -> None:
    client = ConnectionClient(tmp_path / "ray.log", address=None)
    try:
        folder = Path(client._folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    finally:
        client.close()
    assert not folder.exists()


@pytest.mark.ray
def test_requests_and_replies_that_ray_loses_lose_and_double_nothing(
    tmp_path: Path, worker_path: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = '{"CoreWorkerService.grpc_client.PushTask": {"num_failures": 12, "req_failure_prob": 10, "resp_failure_prob": 20}}'
    monkeypatch.setenv("RAY_testing_rpc_failure", failures)
    supervisor = Supervisor(tmp_path, max_restarts=0, launcher=RayLauncher(None, Cluster(tmp_path / "ray.log")))
    got: list[str] = []
    try:
        supervisor.start(WorkerSpec(name="w", module="scripted_worker", replies=Echo, stall_s=60.0))
        for number in range(60):
            supervisor.send("w", Command(what="echo"), str(number).encode())
            end = time.monotonic() + 60.0
            while len(got) <= number and time.monotonic() < end:
                got += [event.message.text for event in supervisor.poll(0.05) if isinstance(event.message, Echo)]  # type: ignore[union-attr]
        assert got == [str(number) for number in range(60)]
        assert supervisor.dropped == 0
    finally:
        supervisor.stop()
    assert (tmp_path / "ray.log").read_text().count("it is repeated") >= 3
