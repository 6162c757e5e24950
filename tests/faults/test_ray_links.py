"""A node whose link is cut until it is declared dead: its worker goes on playing there, and nothing of it counts."""

import os
import random
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import (
    EXPLORER,
    check_nothing_is_doubled,
    count_events,
    describe,
    finish,
    is_gone,
    wait_for_event,
)
from networks import Machine, Network, why_not
from ray_kills import AGAIN_S, account, await_sign
from ray_network_runs import CHECKOUT_RUNS, QUICK, config_text, start_on, undisturbed, where

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

FORSAKEN = re.compile(r"nobody asks for (\S+) any more; (\d+) bytes that it has said wait")
ENDED_S = 240.0
"""A worker behind a cut link ends itself within this; a node that learns that it was given up ends sooner."""


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waiting_bytes(network: Network, node: Machine) -> list[int]:
    """What a node's hosts say of what their workers said and nobody fetches."""
    logs = network.files(node).glob("ray/session_*/logs/worker-*")
    return [int(found[1]) for log in logs for found in FORSAKEN.findall(log.read_text(errors="replace"))]


def cut_off(network: Network, process: subprocess.Popen[bytes], run: Path, dice: random.Random) -> tuple[float, int]:
    """Cut an explorer's node off in mid-run and mend the link once it was declared dead, and another has joined.

    Returns the CPU seconds that the explorer there used after the cut, and how many bytes it had to say."""
    published = count_events(run, "published")
    assert wait_for_event(process, run, "published", published + 1, AGAIN_S), "the run ended; make it longer"
    with suppress(subprocess.TimeoutExpired):
        process.wait(dice.uniform(0.0, 0.3))
    node, pid = dice.choice(where(network, EXPLORER))
    lost, used = count_events(run, "worker_lost"), cpu_s(pid)

    network.cut(node)
    network.forsake(node)
    network.await_nodes(len(network.nodes))  # Ray has given it up
    assert wait_for_event(process, run, "worker_lost", lost + 1, AGAIN_S)
    assert not is_gone(pid), "the old worker lives on"
    used = cpu_s(pid) - used
    assert await_sign(process, lambda: bool(waiting_bytes(network, node)), 60.0)
    said = max(waiting_bytes(network, node))
    network.mend(node)
    assert await_sign(process, lambda: is_gone(pid), ENDED_S), "nobody wants what it plays"
    network.add_node()
    network.await_nodes(len(network.nodes))
    return used, said


def check_cuts(network: Network, folder: Path, steps: int, cuts: int) -> None:
    text, run = config_text(steps), folder / "run"
    process = start_on(network, folder, text)
    dice, said = random.Random(5), []
    assert wait_for_event(process, run, "published", 1, AGAIN_S)

    for _ in range(cuts):
        said.append(cut_off(network, process, run, dice))
    code, error = finish(process, 900.0)

    assert code == 0, error
    print(f"CPU seconds after the cut, bytes that waited: {said}; {account(run)}")
    # Whether it was just playing when it was cut off is chance.
    assert cuts == 1 or any(waited for _, waited in said), "an old worker had played what nobody fetched"
    assert count_events(run, "worker_lost") >= cuts
    check_nothing_is_doubled(run)
    assert describe(run) == undisturbed(folder.with_name(f"{folder.name}_local"), text)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs here, which no node sees."""
    return tmp_path_factory.mktemp("runs")


def test_five_cut_links_change_nothing(runs: Path) -> None:
    with Network(3, masked=[runs, CHECKOUT_RUNS], settings=QUICK) as network:
        check_cuts(network, runs / "cut", 30_000, cuts=5)


def test_a_link_that_is_cut_for_as_long_as_ray_waits_by_default_changes_nothing(runs: Path) -> None:
    with Network(3, masked=[runs, CHECKOUT_RUNS]) as network:
        check_cuts(network, runs / "default", 9000, cuts=1)
