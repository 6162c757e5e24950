"""What was said so far, in a form in which conversations can be compared: turns of system, user and assistant.

Results of tools are the user's words, calls the assistant's, and the tools that are offered stand in the system
message, all in the text form of `workflows/tools/calls.py`: a model whose chat template knows no tools can use them.

Invariant: after the system's turn, user and assistant take turns; the same conversation sent again has equal turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ludus.http.problems import BadRequest
from ludus.workflows.interception.agent_request import AgentMessage, AgentRequest
from ludus.workflows.tools.calls import ToolCall, describe_tools, write_call, write_result

ROLES = {"system": "system", "developer": "system", "user": "user", "tool": "user", "assistant": "assistant"}


class Turn(NamedTuple):
    """What one side said."""

    role: str
    text: str

    def plain(self) -> dict[str, str]:
        """As chat templates know it."""
        return {"role": self.role, "content": self.text}


def read_turns(request: AgentRequest) -> list[Turn]:
    """The conversation of a request.

    Raises:
        BadRequest: it does not end with something to reply to.
    """
    described = describe_tools(request.offered) if request.offered else ""
    rules = [message.content or "" for message in _leading(request.messages)]
    later = request.messages[len(rules) :]
    system = "\n\n".join(part for part in (*rules, described) if part)
    turns = [Turn("system", system)] if system else []
    for message in later:
        # Rules in the middle of a conversation are said to the model, where templates take them at its beginning only.
        role = "user" if ROLES[message.role] == "system" else ROLES[message.role]
        if turns and turns[-1].role == role:
            turns[-1] = Turn(role, f"{turns[-1].text}\n{_text(message)}")
        else:
            turns.append(Turn(role, _text(message)))
    if not turns or turns[-1].role == "assistant":
        raise BadRequest("the conversation must end with a message to the model", parameter="messages")
    return [_comparable(turn) for turn in turns]


def said_turn(text: str, calls: Sequence[ToolCall]) -> Turn:
    """A reply as it will come back: what was said around its calls, and these."""
    return _comparable(Turn("assistant", "\n".join([text, *(write_call(call.name, call.arguments) for call in calls)])))


def _leading(messages: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
    count = next((i for i, message in enumerate(messages) if ROLES[message.role] != "system"), len(messages))
    return messages[:count]


def _text(message: AgentMessage) -> str:
    content = message.content or ""
    if message.role == "tool":
        return write_result(content)
    calls = [write_call(call.function.name, call.function.read()) for call in message.tool_calls or ()]
    return "\n".join([content, *calls])


def _comparable(turn: Turn) -> Turn:
    """Programs trim what they were told before they send it back; that makes no other conversation of it."""
    whole = turn.text.encode("utf-8", "replace").decode()
    return Turn(turn.role, whole.strip() if turn.role == "assistant" else whole)
