"""A chat-completions request, checked. What would change the reply and is not supported is refused, never ignored.

What can be wrong with a request is a `BadRequest`: an HTTP status and the error object that OpenAI's clients
understand. To support another field of the API: add it to `ChatRequest`, take it out of `UNSUPPORTED`, and use it in
`ludus.serve.writer`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ludus.errors import LudusError, TimeoutExceeded

CODES = {401: "invalid_api_key", 403: "forbidden", 404: "not_found", 429: "too_many_requests"}
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "audio": (None,),
    "frequency_penalty": (None, 0),
    "function_call": (None, "none", "auto"),
    "functions": (None, []),
    "logit_bias": (None, {}),
    "modalities": (None, ["text"]),
    "presence_penalty": (None, 0),
    "response_format": (None, {"type": "text"}),
    "tool_choice": (None, "none", "auto"),
    "tools": (None, []),
    "top_logprobs": (None, 0),
    "web_search_options": (None,),
}
"""Fields that we do not serve, and the values with which they ask for nothing."""
MOST_MESSAGES, MOST_STOPS, MOST_CHOICES = 4096, 16, 64


class BadRequest(LudusError):
    """A request that cannot be served. `status` is HTTP's; `parameter` names the field to blame, if there is one."""

    def __init__(self, message: str, *, status: int = 400, parameter: str | None = None, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter
        self.code = code or CODES.get(status)

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.parameter, "code": self.code}}


def as_bad_request(error: LudusError) -> BadRequest:
    """What went wrong while a request was served, as an answer."""
    if isinstance(error, BadRequest):
        return error
    return BadRequest(str(error), status=504 if isinstance(error, TimeoutExceeded) else 500)


def join_parts(content: Any) -> Any:
    """A message's text, given as a string or as a list of text parts."""
    if not isinstance(content, list):
        return content
    if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        raise ValueError("only parts of type 'text' are supported")
    return "".join(str(part.get("text", "")) for part in content)


def _as_tuple(stop: Any) -> Any:
    return (stop,) if isinstance(stop, str) else stop or ()


class ChatMessage(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(join_parts)]

    def plain(self) -> dict[str, str]:
        """As chat templates know it."""
        return {"role": "system" if self.role == "developer" else self.role, "content": self.content}


class StreamOptions(BaseModel):
    """How a reply is streamed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    include_usage: bool = False


class ChatRequest(BaseModel):
    """What is asked for. None means: as the run that trained the policy sampled."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model: str = Field(min_length=1, max_length=200)
    messages: tuple[ChatMessage, ...] = Field(min_length=1, max_length=MOST_MESSAGES)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=10)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    n: int = Field(default=1, ge=1, le=MOST_CHOICES)
    seed: int | None = None
    stop: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], BeforeValidator(_as_tuple)] = (
        Field(default=(), max_length=MOST_STOPS)
    )
    stream: bool = False
    stream_options: StreamOptions | None = None
    logprobs: bool = False


Request = TypeVar("Request", bound=ChatRequest)


def read_chat_request(body: bytes) -> ChatRequest:
    """Check a request's body.

    Raises:
        BadRequest: it is not JSON, a field has a wrong value, or it asks for what is not served.
    """
    fields = read_fields(body)
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadRequest(r"the body has half of a surrogate pair (such as \ud800), which is no Unicode text") from None
    return check_request(fields, ChatRequest, UNSUPPORTED)


def read_fields(body: bytes) -> dict[str, Any]:
    """A body as a JSON object. Raises BadRequest when it is none."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not valid JSON") from None
    if not isinstance(fields, dict):
        raise BadRequest("the body must be a JSON object")
    return fields


def check_request(
    fields: Mapping[str, Any], kind: type[Request], unsupported: Mapping[str, tuple[Any, ...]]
) -> Request:
    """The fields as a request of some kind; those that ask for nothing are left out.

    Raises:
        BadRequest: a field has a wrong value, or one asks for what is not served.
    """
    for name, harmless in unsupported.items():
        if fields.get(name) not in harmless:
            raise BadRequest(f"{name} is not supported here", parameter=name, code="unsupported_parameter")
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadRequest(f"{where}: {first['msg']}", parameter=where) from None
