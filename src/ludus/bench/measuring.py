"""What every benchmark needs: figures, CPU time of a process tree, and sides in processes of their own.

A *side* is what is measured in turn with others. It runs in a fresh process, so that none inherits another's threads,
caches or memory: `python -m MODULE NAME ... SECONDS`, which prints one JSON object on its last line.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from ludus.errors import LudusError
from ludus.runtime.fork_launcher import process_cpu_s

Measured = dict[str, float]
"""What one run of a side found, by name."""
Side = TypeVar("Side", str, tuple[str, int])
"""The arguments of a side: its name, and a number where it takes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of `ludus bench`; `peer` was measured in the same run, and `ratio` is ours over theirs."""

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None
    most: float | None = None
    least: float | None = None
    """Bounds that it is to keep, where there are any."""
    cpu_s: float | None = None
    """CPU-seconds that it took of all processes, which tells more than its time where others use the machine."""

    @property
    def verdict(self) -> str:
        """Its bound, and whether it is kept; empty where it has none."""
        if self.most is None and self.least is None:
            return ""
        is_kept = (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)
        bound = f"at most {self.most:,g}" if self.most is not None else f"at least {self.least:,g}"
        return f"{'kept' if is_kept else 'MISSED'}: {bound}"

    @classmethod
    def alone(cls, name: str, value: float, unit: str) -> Figure:
        """A figure without a peer."""
        return cls(name=name, value=value, unit=unit)

    @classmethod
    def against(cls, name: str, value: float, unit: str, peer: str, peer_value: float) -> Figure:
        """A figure beside its peer's."""
        return cls(name=name, value=value, unit=unit, peer=peer, peer_value=peer_value, ratio=value / peer_value)

    @classmethod
    def bounded(
        cls,
        name: str,
        value: float,
        unit: str,
        *,
        most: float | None = None,
        least: float | None = None,
        cpu_s: float | None = None,
    ) -> Figure:
        """A figure that is to keep a bound."""
        return cls(name=name, value=value, unit=unit, most=most, least=least, cpu_s=cpu_s)

    def to_json(self) -> dict[str, Any]:
        """Everything but the name, under which it is listed."""
        return {key: value for key, value in asdict(self).items() if key != "name"}


def run_rounds(module: str, sides: Sequence[Side], *, rounds: int, seconds: float) -> Iterator[tuple[Side, Measured]]:
    """Run all sides of a module in turn, `rounds` times."""
    for number in range(rounds):
        for side in sides:
            arguments: list[str] = [side] if isinstance(side, str) else [str(part) for part in side]
            print(f"round {number + 1} of {rounds}: {' '.join(arguments)}", file=sys.stderr)
            command = [sys.executable, "-P", "-m", module, *arguments, str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds * 10 + 600, check=False)
            if done.returncode != 0:
                raise LudusError(f"bench side {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
            yield side, json.loads(done.stdout.splitlines()[-1])


def run_this_side(sides: Mapping[str, Callable[..., Measured]]) -> None:
    """In a side's process: run the side that the arguments name, with the numbers after it, and print what it found."""
    name, *numbers = sys.argv[1:]
    print(json.dumps(sides[name](*map(json.loads, numbers))))


def tree_cpu_s() -> float:
    """CPU-seconds used so far by this process, its ended children and its living descendants."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    return total + processes_cpu_s(os.getpid())


def processes_cpu_s(root: int) -> float:
    """CPU-seconds used so far by the living descendants of a process."""
    return sum(process_cpu_s(pid) or 0.0 for pid in descendants(root))


def descendants(root: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat behind the name: state, parent, ...; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
