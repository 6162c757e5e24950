"""`Sandbox`: programs of language models, run out of harm's way while the event loop goes on.

Each program has a thread that waits for it; no more run at the same time than the sandbox was made for, and the others
wait. A caller that gives up takes its program with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ludus.config import SandboxConfig
from ludus.errors import SandboxError
from ludus.runtime.threads import available_cores
from ludus.sandbox.execution import Call, Ran, Reply, call_functions, find_isolation, run_script, run_tests
from ludus.sandbox.fork_server import SandboxForkServer
from ludus.sandbox.program import Confinement, Level, Limits
from ludus.sandbox.pump import Pump

T = TypeVar("T")
CLOSED = "the sandbox was closed before the program had ended"


class Sandbox:
    """Runs programs. Belongs to one event loop; `close` ends what is running."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        in_flight: int | None = None,
        packages: bool = False,
        level: Level | None = None,
    ) -> None:
        """
        Args:
            limits: of each program.
            in_flight: programs at the same time. Default: as many as there are cores.
            packages: let programs import what is installed beside ludus, not only the standard library.
            level: what keeps programs in. Default: the best that works here.

        Raises:
            ConfigError: this machine has nothing that keeps a program in.
        """
        self.limits = limits or Limits()
        self.level = find_isolation() if level is None else level
        self._threads = ThreadPoolExecutor(in_flight or available_cores(), thread_name_prefix="sandbox")
        self._is_closed = False
        self._confinement = Confinement(
            fork_server=SandboxForkServer(), level=self.level, limits=self.limits, packages=packages
        )
        self._pumps: set[Pump] = set()

    async def run(self, source: str, stdin: str = "", *, seed: int = 0) -> Ran:
        """Run a script to its end. Raises SandboxError when the sandbox fails, not the script."""
        return await self._in_thread(run_script, source, stdin, seed=seed)

    async def call(self, source: str, calls: Sequence[Call], *, seed: int = 0) -> list[Reply]:
        """Call functions of a solution. Raises SandboxError as `run` does."""
        return await self._in_thread(call_functions, source, calls, seed=seed)

    async def test(
        self, source: str, tests: Sequence[str], *, preparation: str = "", entry: str = "", seed: int = 0
    ) -> list[str]:
        """Run tests against a solution: for each why it failed, empty if it passed. Raises SandboxError as `run`."""
        return await self._in_thread(run_tests, source, tests, preparation=preparation, entry=entry, seed=seed)

    def close(self) -> None:
        """End all programs and wait for them. Whoever waits for one gets a `SandboxError`."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for pump in list(self._pumps):
            pump.stop()
        self._threads.shutdown(wait=True)
        self._confinement.fork_server.close()

    async def _in_thread(self, work: Callable[..., T], *arguments: Any, **options: Any) -> T:
        pump = Pump()
        self._pumps.add(pump)
        job = self._threads.submit(work, self._confinement, pump, *arguments, **options)
        try:
            result = await asyncio.shield(asyncio.wrap_future(job))
        except asyncio.CancelledError:
            if not job.cancel():
                pump.stop()
                await asyncio.wait([asyncio.wrap_future(job)])
            if self._is_closed:
                raise SandboxError(CLOSED) from None
            raise
        finally:
            self._pumps.discard(pump)
            pump.close()
        if self._is_closed:
            raise SandboxError(CLOSED)
        return result


def make_sandbox(config: SandboxConfig) -> Sandbox:
    """The sandbox that a config describes. Raises ConfigError if this machine has nothing that keeps a program in."""
    limits = Limits(
        cpu_s=config.cpu_s,
        wall_s=config.wall_s,
        memory_mb=config.memory_mb,
        disk_mb=config.disk_mb,
        processes=config.processes,
        output_kb=config.output_kb,
    )
    return Sandbox(limits, in_flight=config.in_flight, packages=config.packages)
