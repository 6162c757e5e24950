"""Tool calls as text: how a model writes one, how a result comes back, and what it is told about both.

    <tool_call>
    {"name": "calculator", "arguments": {"expression": "12*7"}}
    </tool_call>

    <tool_response>
    84
    </tool_response>

This is the form that many open models were taught (Hermes, Qwen). A reply may have several calls; what stands around
them is the model's own affair.

Invariant: finding calls takes time in proportion to the reply, whatever it holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OPEN, CLOSE = "<tool_call>", "</tool_call>"
RESULT_OPEN, RESULT_CLOSE = "<tool_response>", "</tool_response>"
MOST_CHARS = 65_536
"""Of one call."""
MOST_NAME = 64
INSTRUCTIONS = (
    "You may use tools. To call one, write\n"
    f'{OPEN}\n{{"name": "...", "arguments": {{...}}}}\n{CLOSE}\n'
    f"and end your reply there; what it gives comes back between {RESULT_OPEN} and {RESULT_CLOSE}. When you know the "
    "answer, give it without a call.\n\nTools:\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call in a reply; with a `problem` it is none that can be made."""

    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


def find_calls(reply: str) -> list[ToolCall]:
    """The calls in a reply, in order."""
    calls: list[ToolCall] = []
    start = reply.find(OPEN)
    while start >= 0:
        end = reply.find(CLOSE, start)
        if end < 0:
            calls.append(ToolCall(problem=f"the call has no {CLOSE}"))
            break
        calls.append(read_call(reply[start + len(OPEN) : end]))
        start = reply.find(OPEN, end)
    return calls


def text_around(reply: str) -> str:
    """A reply without its calls."""
    parts = reply.split(OPEN)
    return "".join([parts[0], *(part.partition(CLOSE)[2] for part in parts[1:])]).strip()


def read_call(text: str) -> ToolCall:
    """One call, from what stands between its marks."""
    if len(text) > MOST_CHARS:
        return ToolCall(problem=f"the call has more than {MOST_CHARS:,} characters")
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return ToolCall(problem="the call is no JSON object")
    name = found.get("name") if isinstance(found, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME:
        return ToolCall(problem='the call has no "name"')
    arguments = found.get("arguments", {})
    if not isinstance(arguments, dict):
        return ToolCall(name=name, problem='the "arguments" of the call are no JSON object')
    return ToolCall(name=name, arguments=arguments)


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as a model would write it."""
    return f"{OPEN}\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n{CLOSE}"


def write_result(result: str) -> str:
    """A result as a model is told it. A text cannot close the marks around it."""
    safe = result.replace(RESULT_CLOSE, RESULT_CLOSE.replace("<", "< "))
    return f"{RESULT_OPEN}\n{safe}\n{RESULT_CLOSE}"


def describe_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """What a model is told about its tools, each with `name`, `description` and `parameters` (a JSON schema)."""
    lines = []
    for tool in tools:
        parameters = dict(tool.get("parameters") or {})
        shown = json.dumps(parameters.get("properties", {}), ensure_ascii=False)
        lines.append(f"{tool['name']}: {tool.get('description') or 'no description'}\n  arguments: {shown}")
    return INSTRUCTIONS + "\n".join(lines)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
