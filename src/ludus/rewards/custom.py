"""`custom`: a user's own rewards, in processes of their own.

Invariants: a reward that hangs is ended at its limit, with its process, whatever it is doing; the next attempt finds a
new one. A process is used again as long as it answers. What a reward prints goes to a log, not to ours.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from ludus.config.sections.rewards import CustomRewardConfig, MathVerifyRewardConfig
from ludus.errors import ProtocolError, RewardError
from ludus.extras import need_packages
from ludus.rewards.attempt import Attempt, Instant, Mark, check_value
from ludus.rewards.registry import REWARDS
from ludus.rewards.worker import Broken, FromRewards, Marked, MarkThis, Prepare, Prepared
from ludus.runtime import WorkerProcess, WorkerSpec

MODULE = "ludus.rewards.worker"
READY_S = 120.0
"""A process has this long to import what its rewards need."""
STACK_S = 0.5
"""A reward that hangs has this long to write down where it is."""


class RewardProcess:
    """One process, started when it is first needed and again after it was lost. One attempt at a time."""

    def __init__(self, name: str, log_path: Path, plugins: Sequence[str], rewards: Sequence[str]) -> None:
        self._spec = WorkerSpec(name=name, module=MODULE, replies=FromRewards)
        self._log_path = log_path
        self._prepare = Prepare(plugins=list(plugins), names=list(rewards))
        self._worker: WorkerProcess | None = None
        self._number = 0
        self._is_ended = False

    def mark(self, message: MarkThis, limit_s: float) -> Mark:
        """Have an attempt marked. Raises RewardError if there is no mark; the message says why."""
        self._number += 1
        message.number = self._number
        worker = self._ready()
        try:
            worker.channel.send(message)
            worker.channel.drain(limit_s)
            marked = self._wait(worker, limit_s)
        except (EOFError, OSError, ProtocolError) as error:
            raise RewardError(f"its process {self._lose(worker)} ({error})") from error
        if not isinstance(marked, Marked) or marked.number != self._number:
            raise RewardError(f"it took longer than {limit_s:g} s and was ended; {self._lose_hung(worker)}")
        if marked.problem:
            raise RewardError(marked.problem)
        return Mark(value=check_value(marked.value), note=marked.note)

    def end(self) -> None:
        """End the process from another thread; an attempt that is with it fails, and no other is taken."""
        self._is_ended = True
        worker = self._worker
        if worker is not None:
            worker.process.kill()

    def close(self) -> None:
        """Give everything back; no attempt may be under way."""
        if self._worker is not None:
            self._lose(self._worker)

    def _ready(self) -> WorkerProcess:
        if self._is_ended:
            raise RewardError("the rewards are closed")
        if self._worker is not None:
            return self._worker
        worker = WorkerProcess(self._spec, self._log_path)
        self._worker = worker
        try:
            worker.channel.send(self._prepare)
            message = self._wait(worker, READY_S)
        except (EOFError, OSError, ProtocolError) as error:
            raise RewardError(f"its process {self._lose(worker)} before it was ready ({error})") from error
        if isinstance(message, Prepared):
            return worker
        self._lose(worker)
        why = message.error if isinstance(message, Broken) else f"it was not ready within {READY_S:g} s"
        raise RewardError(f"its process cannot be used: {why}")

    @staticmethod
    def _wait(worker: WorkerProcess, limit_s: float) -> object | None:
        frames = worker.channel.wait(limit_s)
        return frames[0][0] if frames else None

    def _lose(self, worker: WorkerProcess) -> str:
        """End a process that cannot be used any more; says how it ended."""
        worker.kill()
        self._worker = None
        return worker.describe_exit()

    def _lose_hung(self, worker: WorkerProcess) -> str:
        """End a process that hangs, after it has written down where; says where that is to be read."""
        size = self._log_path.stat().st_size
        worker.process.write_stack()
        ends = time.monotonic() + STACK_S
        while self._log_path.stat().st_size == size and time.monotonic() < ends:
            time.sleep(0.01)
        self._lose(worker)
        return f"where it was stands in {self._log_path}"


class RewardProcesses:
    """A number of processes, and a thread for each that waits for it."""

    def __init__(self, count: int, *, plugins: Sequence[str], rewards: Sequence[str], logs: Path | None = None) -> None:
        """`logs` is the folder for what the rewards print. Default: a temporary one."""
        self._own_logs = tempfile.TemporaryDirectory(prefix="ludus-rewards-") if logs is None else None
        folder = Path(self._own_logs.name) if self._own_logs else logs or Path()
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"reward-{number}" for number in range(count)]
        self._all = [RewardProcess(name, folder / f"{name}.log", plugins, rewards) for name in names]
        self._free: SimpleQueue[RewardProcess] = SimpleQueue()
        for process in self._all:
            self._free.put(process)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="reward")

    async def mark(self, message: MarkThis, limit_s: float) -> Mark:
        """Have an attempt marked by a process that is free. Raises as `RewardProcess.mark` does."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._mark, message, limit_s)

    def close(self) -> None:
        """End all processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._all:
            process.end()
        self._threads.shutdown(wait=True)
        for process in self._all:
            process.close()
        if self._own_logs is not None:
            self._own_logs.cleanup()

    def _mark(self, message: MarkThis, limit_s: float) -> Mark:
        process = self._free.get()
        try:
            return process.mark(message, limit_s)
        finally:
            self._free.put(process)


def name_of(config: CustomRewardConfig | MathVerifyRewardConfig) -> str:
    """The name under which the function is registered."""
    return config.name if isinstance(config, CustomRewardConfig) else config.kind


def check_part(config: CustomRewardConfig | MathVerifyRewardConfig) -> None:
    """Raise ConfigError unless the function, or the package, is there."""
    REWARDS.find(name_of(config))
    if isinstance(config, MathVerifyRewardConfig):
        need_packages("math_verify", "math_verify")


class CustomReward(Instant):
    """A user's reward, or math-verify; the processes are whose they were, and are not closed here."""

    def __init__(self, config: CustomRewardConfig | MathVerifyRewardConfig, processes: RewardProcesses) -> None:
        check_part(config)
        self._name = name_of(config)
        self._options = config.options if isinstance(config, CustomRewardConfig) else {"answer": config.answer}
        self._limit_s = config.limit_s
        self._processes = processes

    async def mark(self, attempt: Attempt) -> Mark:
        """What the user's function returns."""
        message = MarkThis(
            number=0,
            name=self._name,
            response=attempt.response,
            inputs=dict(attempt.inputs),
            options=dict(self._options),
            seed=attempt.seed,
            tokens=attempt.tokens,
        )
        return await self._processes.mark(message, self._limit_s)
