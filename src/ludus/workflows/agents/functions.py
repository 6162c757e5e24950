"""Agents that are functions: async ones in the event loop, others in a thread of their own."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable
from typing import Any

from ludus.workflows.agents.agent import AgentTask


class FunctionAgent:
    """Calls a user's function."""

    def __init__(self, function: Callable[[AgentTask], Any]) -> None:
        self._function = function

    async def attempt(self, task: AgentTask) -> Any:
        """What the function returns."""
        if inspect.iscoroutinefunction(self._function):
            return await self._function(task)
        return await in_thread(lambda: self._function(task))


async def in_thread(work: Callable[[], Any]) -> Any:
    """Do some work in a new thread, which does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()

    def tell(value: Any, error: BaseException | None) -> None:
        if not result.done():
            result.set_result(value) if error is None else result.set_exception(error)

    def run() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = work()
        except StopIteration as end:  # cannot be put into a future
            error = RuntimeError(f"StopIteration: {end}")
        except BaseException as raised:  # whoever waits raises it
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is gone, and nobody waits
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=run, name="agent", daemon=True).start()
    return await result
