"""`agent`: a program that speaks the OpenAI API attempts the task; the policy answers it, and all is recorded.

An attempt's reward is what the program returns, what it told the endpoint (POST /v1/ludus/reward), or what the run's
rewards give for its response. Agents that are async functions share the event loop, others have a thread of their own.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from ludus.config.sections.workflow import AgentConfig
from ludus.records import Task
from ludus.workflows.agents.agent import AGENTS, AgentTask, Command
from ludus.workflows.agents.programs import ProgramAgent
from ludus.workflows.interception.server import InterceptionServer
from ludus.workflows.rollout_model import RolloutModel


class AgentProgram:
    """Runs agents against the intercepting endpoint."""

    many_chats = True

    def __init__(self, config: AgentConfig) -> None:
        """
        Raises:
            ConfigError: there is no such agent.
        """
        found = AGENTS.find(config.name)
        self._attempt: Callable[[AgentTask], Awaitable[Any]]
        if isinstance(found, Command):
            self._attempt = ProgramAgent(found).attempt
        else:
            self._attempt = found if inspect.iscoroutinefunction(found) else partial(_in_thread, found)
        self._options = config.options
        self._server = InterceptionServer()

    async def run(self, task: Task, model: RolloutModel) -> Any:
        """Let the agent work; what it said is in the model's chats."""
        interception, url, token = self._server.open(model)
        given = AgentTask(
            base_url=url,
            api_key=token,
            model=str(model.policy.name),
            inputs=task.inputs,
            options=self._options,
            seed=model.seed,
        )
        try:
            returned = await self._attempt(given)
        finally:
            self._server.end(token)
        return interception.outcome(returned)

    async def close(self) -> None:
        """Stop the endpoint."""
        await self._server.close()


async def _in_thread(function: Callable[[AgentTask], Any], task: AgentTask) -> Any:
    """Call a function in a new thread, which does not keep the process from ending."""
    result: Future[Any] = Future()
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(function(task))
        except StopIteration as end:  # cannot be put into an asyncio future
            result.set_exception(RuntimeError(f"StopIteration: {end}"))
        except BaseException as raised:  # whoever waits raises it
            result.set_exception(raised)

    threading.Thread(target=run, name="agent", daemon=True).start()
    return await asyncio.wrap_future(result)
