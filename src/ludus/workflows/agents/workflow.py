"""`agent`: a program that speaks the OpenAI API attempts the task; the policy answers it, and all is recorded.

An attempt's reward is what the program returns, what it told the endpoint (POST /v1/ludus/reward), or what the run's
rewards give for its response. Agents that are async functions share the event loop, others have a thread of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import shutil
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from ludus.config.sections.workflow import AgentConfig
from ludus.errors import ConfigError, EnvError
from ludus.records import Task
from ludus.workflows.agents.agent import AGENTS, AgentTask, Command
from ludus.workflows.interception.server import InterceptionServer
from ludus.workflows.rollout_model import RolloutModel

MOST_OUTPUT = 1 << 20
MOST_COMPLAINT = 500
_TRAMPOLINE = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(127)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"it cannot be started: {error.strerror}")
"""
"""Asks to die with its parent, then becomes the program. Done after the fork, in no hurry: the parent has threads."""


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


class ProgramAgent:
    """Runs a command: a process group for each attempt, which does not outlive it.

    The program itself ends with this process, too, however that ends. Not covered: what it moved into a session of its
    own.
    """

    def __init__(self, command: Command) -> None:
        """
        Raises:
            ConfigError: there is no such program.
        """
        self._command = command
        program, path = command.arguments[0], command.environment.get("PATH")
        if os.sep not in program and shutil.which(program, path=path) is None:
            raise ConfigError(f"there is no program {program!r} on PATH")

    async def attempt(self, task: AgentTask) -> str | None:
        """What the program prints; None when that is nothing.

        Raises:
            EnvError: it cannot be started, failed, or printed too much.
        """
        process = await self._start(task)
        try:
            told = {"inputs": dict(task.inputs), "options": dict(task.options), "model": task.model, "seed": task.seed}
            printed, complaint = await _talk(process, json.dumps(told).encode() + b"\n")
            code = await process.wait()
        finally:
            await _end(process)
        if code:
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
            last = complaint.decode(errors="replace").strip()[-MOST_COMPLAINT:]
            raise EnvError(f"the agent {self._command.arguments[0]} was {how}: {last or 'it said nothing'}")
        return printed.decode(errors="replace").strip() or None

    async def _start(self, task: AgentTask) -> Process:
        command = self._command
        environment = os.environ | dict(command.environment)
        environment |= {
            "OPENAI_BASE_URL": task.base_url,
            "OPENAI_API_BASE": task.base_url,
            "OPENAI_API_KEY": task.api_key,
        }
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _TRAMPOLINE, str(os.getpid())),
                *command.arguments,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=command.folder,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise EnvError(f"the agent {command.arguments[0]} cannot be started: {error.strerror}") from error


async def _talk(process: Process, told: bytes) -> tuple[bytes, bytes]:
    """Tell the program its task; returns what it printed to both streams."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise EnvError("the agent was started without streams")
    writing = asyncio.ensure_future(_write(process.stdin, told))
    try:
        printed, complaint = await asyncio.gather(
            _read(process.stdout, refuse_more=True), _read(process.stderr, refuse_more=False)
        )
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    return printed, complaint


async def _write(stream: asyncio.StreamWriter, told: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # it may not care
        stream.write(told)
        await stream.drain()
        stream.close()
        await stream.wait_closed()


async def _read(stream: asyncio.StreamReader, *, refuse_more: bool) -> bytes:
    """All that a program writes; beyond the limit it is refused, or only its end is kept."""
    kept = bytearray()
    while part := await stream.read(1 << 16):
        kept += part
        if len(kept) > MOST_OUTPUT:
            if refuse_more:
                raise EnvError(f"the agent printed more than {MOST_OUTPUT:,} bytes")
            del kept[: len(kept) - MOST_OUTPUT]
    return bytes(kept)


async def _end(process: Process) -> None:
    """End the program with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()  # first: what it printed and nobody read would keep `wait` waiting
    await process.wait()
