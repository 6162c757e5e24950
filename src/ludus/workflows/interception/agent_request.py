"""A chat-completions request of a program that is being trained, checked.

How tokens are drawn is the run's business, since the learner computes with the same: `temperature`, `top_p`, `top_k`
and `seed` are accepted and not followed. What else would change a reply and is not supported is refused, never ignored.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ludus.http.chat_request import (
    MOST_MESSAGES,
    UNSUPPORTED,
    ChatRequest,
    check_request,
    join_parts,
    read_fields,
)
from ludus.http.problems import BadRequest

_SERVED = ("tools", "tool_choice")
MOST_TOOLS = 256


class CalledFunction(BaseModel):
    """What a call calls."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = Field(max_length=256)
    arguments: str = "{}"

    def read(self) -> Any:
        """The arguments as JSON; as they are, when they are none."""
        try:
            return json.loads(self.arguments)
        except (ValueError, RecursionError):
            return self.arguments


class MadeCall(BaseModel):
    """A call that an earlier reply made."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    function: CalledFunction


class OfferedFunction(BaseModel):
    """A function that the model may call."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = Field(min_length=1, max_length=64)
    description: str = ""
    parameters: dict[str, Any] = Field(default={})


class OfferedTool(BaseModel):
    """A tool that the model may use."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["function"]
    function: OfferedFunction


class AgentMessage(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(extra="ignore", frozen=True)

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
