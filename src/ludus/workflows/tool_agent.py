"""`tool_agent`: the policy calls tools until it answers; calls and results are text in one conversation.

Invariant: what a tool gives is what the policy hears, bounded, between marks that it cannot break out of. Only the
policy's own words are learnt from.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ludus.config.sections.workflow import ToolAgentConfig
from ludus.records import Task, derive_seed
from ludus.sandbox.execution import find_isolation
from ludus.sandbox.sandbox import Sandbox, make_sandbox
from ludus.workflows.outcome import Outcome
from ludus.workflows.prompting import fill
from ludus.workflows.rollout_model import OutOfRoom, RolloutModel
from ludus.workflows.tools.built_in import calculator, make_python
from ludus.workflows.tools.calls import ToolCall, describe_tools, find_calls, write_result
from ludus.workflows.tools.tool import BUILT_IN, TOOLS, Tool, ToolError, make_tool

LEFT_OUT = "\n[...]\n"


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What an attempt has called."""

    turns: int = 0
    calls: int = 0
    failed_calls: int = 0


class ToolAgent:
    """Lets the policy use tools."""

    many_chats = False

    def __init__(self, config: ToolAgentConfig) -> None:
        """
        Raises:
            ConfigError: there is no such tool, or nothing that keeps programs in.
        """
        self._config = config
        self._sandbox: Sandbox | None = None
        self._tools = {name: self._find(name) for name in config.tools}
        described = describe_tools([tool.described() for tool in self._tools.values()])
        self._system = f"{config.system}\n\n{described}" if config.system else described

    async def run(self, task: Task, model: RolloutModel) -> Outcome:
        """Talk until there is a reply without a call, or a limit is reached."""
        chat, tally = model.chat(self._system), _Tally()
        message, reply = fill(self._config.template, task.inputs), ""
        for _ in range(self._config.turns):
            try:
                reply = await chat.say(message)
            except OutOfRoom:
                if not tally.turns:
                    raise
                break
            tally.turns += 1
            calls = find_calls(reply)
            chat.mark(format_ok=not any(call.problem for call in calls))
            if not calls:
                return self._outcome(reply, tally, truncated=chat.is_cut)
            message = await self._answer(calls, task, derive_seed(model.seed, "tools", tally.turns), tally)
        return self._outcome(reply, tally, truncated=True)

    async def close(self) -> None:
        """End all programs."""
        if self._sandbox is not None:
            self._sandbox.close()

    def _find(self, name: str) -> Tool:
        match name:
            case "calculator":
                return make_tool(name, calculator)
            case "python":
                self._sandbox = self._sandbox or make_sandbox(self._config.sandbox)
                return make_tool(name, make_python(self._sandbox))
        return TOOLS.find(name)

    def _outcome(self, reply: str, tally: _Tally, *, truncated: bool) -> Outcome:
        metrics = {"turns": tally.turns, "calls": tally.calls, "failed_calls": tally.failed_calls}
        return Outcome(response=reply, truncated=truncated, metrics=metrics)

    async def _answer(self, calls: list[ToolCall], task: Task, seed: int, tally: _Tally) -> str:
        results = []
        for number, call in enumerate(calls):
            tally.calls += 1
            try:
                if number >= self._config.calls:
                    raise ToolError(f"no more than {self._config.calls} calls in one reply")
                result = await self._call(call, task, derive_seed(seed, number))
            except ToolError as problem:
                tally.failed_calls += 1
                result = f"error: {problem}"
            results.append(write_result(shortened(result, self._config.output_chars)))
            if number >= self._config.calls:
                break
        return "\n".join(results)

    async def _call(self, call: ToolCall, task: Task, seed: int) -> str:
        if call.problem:
            raise ToolError(call.problem)
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"there is no tool {call.name!r}; there are: {', '.join(self._tools)}")
        try:
            async with asyncio.timeout(self._config.limit_s):
                return await tool.call(call.arguments, task=task, seed=seed)
        except TimeoutError:
            raise ToolError(f"{call.name} took longer than {self._config.limit_s:g} s") from None


def check_tools(config: ToolAgentConfig) -> None:
    """Check that the tools exist, and that programs can be kept in where they are asked for. Raises ConfigError."""
    for name in config.tools:
        if name == "python":
            find_isolation()
        elif name not in BUILT_IN:
            TOOLS.find(name)


def shortened(text: str, most: int) -> str:
    """A text without its middle, if it is longer than this."""
    if len(text) <= most:
        return text
    kept = max(most - len(LEFT_OUT), 2)
    return text[: kept - kept // 2] + LEFT_OUT + text[len(text) - kept // 2 :]
