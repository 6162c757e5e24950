"""Runs on nodes with networks and disks of their own: what is killed or cut off there costs time, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import killing
from killing import (
    EXPLORER,
    TRAINER,
    describe,
    finish,
    wait_until,
)
from networks import Machine, Network, why_not
from ray_network_runs import (
    CHECKOUT_RUNS,
    QUICK,
    config_text,
    start_on,
    undisturbed,
    where,
)

pytestmark = [pytest.mark.ray, pytest.mark.timeout(3000), pytest.mark.skipif(bool(why_not()), reason=why_not())]

ORPHANS_S = 30.0
NODE_S = 300.0
"""A worker's start on a node, whose host imports JAX first, on a busy machine."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs here, which no node sees."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def network(runs: Path) -> Iterator[Network]:
    """Four nodes."""
    with Network(4, masked=[runs, CHECKOUT_RUNS], settings=QUICK) as made:
        yield made


def wait_for_event(process: subprocess.Popen[bytes], run: Path, kind: str, number: int) -> bool:
    return killing.wait_for_event(process, run, kind, number, NODE_S)


def both(network: Network) -> list[tuple[Machine, int]]:
    return where(network, EXPLORER) + where(network, TRAINER)


def test_a_run_on_four_nodes_that_see_nothing_of_it_ends_as_a_local_one(network: Network, runs: Path) -> None:
    for node in network.nodes:
        seen = f"/proc/{node.first}/root{runs}"
        assert not os.path.exists(seen) or os.listdir(seen) == []
    text, run = config_text(3000), runs / "four" / "run"
    process = start_on(network, runs / "four", text)
    assert wait_for_event(process, run, "published", 2)
    assert len({node.name for node, _ in both(network)}) >= 2

    code, said = finish(process)

    assert code == 0, said
    assert describe(run) == undisturbed(runs / "four_local", text)
    assert wait_until(lambda: not both(network), ORPHANS_S)
