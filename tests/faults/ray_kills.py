"""Kill workers and nodes of a run on a `Network` at random moments, and count what became of it."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from networks import Machine, Network
from ray_network_runs import where

from ludus.storage.jsonl import read_jsonl

LEARNER = "ludus.orchestrator.fused.worker"
NODE = "node"
"""Not a module: a node that has a worker is powered off, and another joins."""
PROGRESS = {"published", "assignment", "joined", "frozen", "measured"}
"""Events that show that a run gets on."""
AGAIN_S = 300.0
"""A run must get on within so long of a kill: a node joins and two workers begin, on a busy machine."""


def read_events(run: Path) -> list[dict[str, Any]]:
    """Of a run and of the learners in it."""
    return [event for path in sorted(run.rglob("events.jsonl")) for event in read_jsonl(path)]


def count_progress(run: Path) -> int:
    return sum(event["event"] in PROGRESS for event in read_events(run))


def account(run: Path, kills: Mapping[str, int] = {}) -> dict[str, int]:
    """What is to be reported of a run with kills."""
    events = read_events(run)
    lost = [event for event in events if event["event"] == "worker_lost"]
    late = [event for event in events if event["event"] == "refused_late"]
    return {
        **{f"killed {who.rpartition('.')[0] or who}": count for who, count in sorted(kills.items())},
        "lost workers": len(lost),
        "restarts": sum(event.get("is_replaced", True) for event in lost),
        "requeued": sum(event.get("requeued", 0) for event in lost),
        "refused_late": sum(event.get("frames", 0) + event.get("answers", 0) for event in late),
    }


def kill_at_random(
    network: Network, process: subprocess.Popen[bytes], run: Path, whom: Sequence[str], *, seed: int
) -> Counter[str]:
    """Kill these one after the other; returns how many of each were there to be killed before the run ended.

    Most kills come after the run got on, and some while it still recovers from the one before.
    """
    dice, done = random.Random(seed), Counter[str]()
    seen = count_progress(run)
    for who in whom:
        is_during_recovery = bool(done) and dice.random() < 0.25
        if not is_during_recovery and not _await_progress(process, run, seen + 1):
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.0, 5.0 if is_during_recovery else 0.5))
            break
        seen = count_progress(run)
        if not _strike(network, process, who, dice):
            break
        done[who] += 1
    return done


def _await_progress(process: subprocess.Popen[bytes], run: Path, goal: int) -> bool:
    """Wait until a run got on; False when it ended first."""
    got_on = await_sign(process, lambda: count_progress(run) >= goal, AGAIN_S)
    assert got_on or process.poll() is not None, f"the run did not get on within {AGAIN_S:g} s of the last kill"
    return got_on


def _strike(network: Network, process: subprocess.Popen[bytes], who: str, dice: random.Random) -> bool:
    """Kill one of them; False when the run ended before there was one."""
    modules = (LEARNER, "ludus.explore.worker", "ludus.train.worker") if who == NODE else (who,)
    found: list[tuple[Machine, int]] = []

    def is_there() -> bool:
        found[:] = [each for module in modules for each in where(network, module)]
        return bool(found)

    if not await_sign(process, is_there, AGAIN_S):
        assert process.poll() is not None, f"nothing runs {who} within {AGAIN_S:g} s"
        return False
    node, pid = dice.choice(found)
    if who == NODE:
        replace_node(network, node)
    else:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return True


def replace_node(network: Network, node: Machine) -> None:
    """Power a node off; another joins while the run goes on."""
    network.remove(node)
    network.add_node()


def await_sign(process: subprocess.Popen[bytes], holds: Callable[[], bool], within_s: float) -> bool:
    """Wait for something while a run goes on; looks ten times a second, for the run has few cores."""
    end = time.monotonic() + within_s
    while not holds() and time.monotonic() < end:
        if process.poll() is not None:
            return holds()
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    return holds()
