"""`tool_agent`: the policy calls tools until it answers; calls and results are text in one conversation.

Invariant: what a tool gives is what the policy hears, bounded, between marks that it cannot break out of. Only the
policy's own words are learnt from.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from fractions import Fraction

from ludus.config.sections.workflow import ToolAgentConfig
from ludus.records import Task, derive_seed
from ludus.rewards.expressions import CONSTANTS, FUNCTIONS, Number, Unreadable, evaluate, parse
from ludus.sandbox.execution import find_isolation
from ludus.sandbox.sandbox import Sandbox, make_sandbox
from ludus.workflows.prompting import fill
from ludus.workflows.protocol import Outcome
from ludus.workflows.rollout_model import OutOfRoom, RolloutModel
from ludus.workflows.tools.calls import ToolCall, describe_tools, find_calls, write_result
from ludus.workflows.tools.tool import BUILT_IN, TOOLS, Tool, ToolError, make_tool

LEFT_OUT = "\n[...]\n"
_WORDS = re.compile(r"(?<![\\A-Za-z])(" + "|".join((*FUNCTIONS, *CONSTANTS)) + r")(?![A-Za-z])")
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "\n": " "})
_TINY = 1e-12
MOST_COMPLAINT = 400


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
        chat, tally = model.chat(self._system), Counter(turns=0, calls=0, failed_calls=0)
        message, reply = fill(self._config.template, task.inputs), ""
        for _ in range(self._config.turns):
            try:
                reply = await chat.say(message)
            except OutOfRoom:
                if not tally["turns"]:
                    raise
                break
            tally["turns"] += 1
            calls = find_calls(reply)
            chat.mark(format_ok=not any(call.problem for call in calls))
            if not calls:
                return Outcome(response=reply, truncated=chat.is_cut, metrics=tally)
            message = await self._answer(calls, task, derive_seed(model.seed, "tools", tally["turns"]), tally)
        return Outcome(response=reply, truncated=True, metrics=tally)

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

    async def _answer(self, calls: list[ToolCall], task: Task, seed: int, tally: Counter[str]) -> str:
        results = []
        for number, call in enumerate(calls):
            tally["calls"] += 1
            try:
                if number >= self._config.calls:
                    raise ToolError(f"no more than {self._config.calls} calls in one reply")
                result = await self._call(call, task, derive_seed(seed, number))
            except ToolError as problem:
                tally["failed_calls"] += 1
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


def calculator(expression: str) -> str:
    """Works out an arithmetic expression: + - * / ^ ( ) ! sqrt sin cos tan ln log exp pi."""
    # By the parser that rewards use for answers: nothing is executed, and 9^9^9^9 is refused at once.
    text = _WORDS.sub(r"\\\1", expression.translate(_SIGNS).replace("**", "^"))
    try:
        return write_number(evaluate(parse(text), {}))
    except KeyError as letter:
        raise ToolError(f"{letter.args[0]} has no value; write numbers only") from None
    except Unreadable as problem:
        raise ToolError(f"{expression[:60]!r} cannot be worked out: {problem}") from None


def write_number(value: Number) -> str:
    """A number as a person writes it: whole ones in full, others with twelve digits."""
    if isinstance(value, Fraction):
        return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"
    if abs(value.imag) <= _TINY * max(abs(value.real), 1.0):
        return f"{value.real:.12g}"
    return f"{value.real:.12g}{value.imag:+.12g}i"


def make_python(sandbox: Sandbox) -> Callable[..., Awaitable[str]]:
    """The function behind the tool; the sandbox is whose it was."""

    async def python(code: str, seed: int) -> str:
        """Runs a Python program and returns what it prints."""
        ran = await sandbox.run(code, seed=seed)
        printed = ran.stdout.rstrip("\n")
        if ran.ended.is_clean:
            return printed or "(it printed nothing)"
        complaint = ran.stderr.strip()[-MOST_COMPLAINT:]
        return "\n".join(part for part in (printed, f"(the program {ran.ended})", complaint) if part)

    return python
