"""A chat-completions request of a program that is being trained, checked.

How tokens are drawn is the run's business, since the learner computes with the same: `temperature`, `top_p`, `top_k`
and `seed` are accepted and not followed. What else would change a reply and is not supported is refused, never ignored.

`read_turns` makes its conversation into turns of system, user and assistant that can be compared. Results of tools are
the user's words, calls the assistant's, and the tools that are offered stand in the system message, all in the text
form of `workflows/tools/calls.py`: a model whose chat template knows no tools can use them. After the system's turn,
user and assistant take turns; the same conversation sent again has equal turns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ludus.http.chat_request import (
    MOST_MESSAGES,
    UNSUPPORTED,
    BadRequest,
    ChatRequest,
    check_request,
    join_parts,
    read_fields,
)
from ludus.workflows.protocol import whole_text
from ludus.workflows.tools.calls import ToolCall, describe_tools, write_call, write_result

_SERVED = ("tools", "tool_choice")
MOST_TOOLS = 256
ROLES = {"system": "system", "developer": "system", "user": "user", "tool": "user", "assistant": "assistant"}


class _Part(BaseModel):
    """A part of a request; what is not known in it does no harm."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class CalledFunction(_Part):
    """What a call calls."""

    name: str = Field(max_length=256)
    arguments: str = "{}"

    def read(self) -> Any:
        """The arguments as JSON; as they are, when they are none."""
        try:
            return json.loads(self.arguments)
        except (ValueError, RecursionError):
            return self.arguments


class MadeCall(_Part):
    """A call that an earlier reply made."""

    function: CalledFunction


class OfferedFunction(_Part):
    """A function that the model may call."""

    name: str = Field(min_length=1, max_length=64)
    description: str = ""
    parameters: dict[str, Any] = Field(default={})


class OfferedTool(_Part):
    """A tool that the model may use."""

    type: Literal["function"]
    function: OfferedFunction


class AgentMessage(_Part):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str | None, BeforeValidator(join_parts)] = None
    tool_calls: tuple[MadeCall, ...] | None = None


class AgentRequest(ChatRequest):
    """What is asked for."""

    messages: tuple[AgentMessage, ...] = Field(min_length=1, max_length=MOST_MESSAGES)  # type: ignore[assignment]
    tools: tuple[OfferedTool, ...] = Field(default=(), max_length=MOST_TOOLS)
    tool_choice: Literal["auto", "none"] = "auto"

    @property
    def offered(self) -> list[dict[str, Any]]:
        """The tools that the model is told of."""
        return [] if self.tool_choice == "none" else [tool.function.model_dump() for tool in self.tools]


class Reward(BaseModel):
    """What a program says its attempt, or one completion of it, is worth."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    reward: float | None = None
    completion: str | None = None
    """Id of the completion that is meant. Default: the whole attempt."""
    choice: int = Field(default=0, ge=0)
    """Which of the completion's choices."""
    response: str | None = None
    """What the run's rewards are to score instead."""
    metrics: dict[str, float] = Field(default={})


def read_agent_request(body: bytes) -> AgentRequest:
    """Check a request's body.

    Raises:
        BadRequest: it is not JSON, a field has a wrong value, or it asks for what is not served.
    """
    unsupported = {name: harmless for name, harmless in UNSUPPORTED.items() if name not in _SERVED}
    return check_request(read_fields(body), AgentRequest, unsupported)


def read_reward(body: bytes) -> Reward:
    """Check the body of a reward. Raises BadRequest as `read_agent_request` does."""
    try:
        return Reward.model_validate(read_fields(body))
    except ValueError as error:
        raise BadRequest(f'expected a reward such as {{"reward": 1.0}}: {error}') from None


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
    whole = whole_text(turn.text)
    return Turn(turn.role, whole.strip() if turn.role == "assistant" else whole)
