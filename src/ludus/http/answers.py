"""Replies as the API writes them: one object, or a stream of server-sent events."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ludus.http.token_text import TokenText
from ludus.inference.protocol import Finish

DONE = b"data: [DONE]\n\n"


def new_id() -> str:
    """An id for the answer to one request."""
    return f"chatcmpl-{secrets.token_hex(12)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The next part of a reply."""

    text: str
    tokens: tuple[int, ...]
    """What was sampled since the last piece, up to a stop string; its text may still be held back."""
    logps: tuple[float, ...]
    finish: Finish | None = None
    """Why the reply ends here; None while it goes on."""
    calls: tuple[dict[str, Any], ...] = ()
    """Tool calls that the reply consists of, as the API writes them."""


@dataclass(slots=True, kw_only=True)
class Choice:
    """One reply, gathered from its pieces."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)
    finish: str | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        """Take the next piece."""
        self.text += piece.text
        self.tokens += piece.tokens
        self.logps += piece.logps
        self.finish = _reason(piece)
        self.calls += piece.calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Writes the answers to one request."""

    model: str
    prompt_tokens: int
    token_text: TokenText | None
    """Where log-probabilities are wanted."""
    id: str = field(default_factory=new_id)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """All replies at once."""
        return {
            **self._head("chat.completion"),
            "choices": [self._choice(index, choice) for index, choice in enumerate(choices)],
            "usage": self.usage([len(choice.tokens) for choice in choices]),
        }

    def opening_event(self, index: int) -> bytes:
        """What a streamed reply begins with."""
        return self._event(index, {"role": "assistant", "content": ""}, None, None)

    def event(self, index: int, piece: Piece) -> bytes:
        """One piece of a streamed reply."""
        logprobs = self._logprobs(piece.tokens, piece.logps)
        delta: dict[str, Any] = {"content": piece.text} if piece.text else {}
        if piece.calls:
            delta["tool_calls"] = [{"index": number, **call} for number, call in enumerate(piece.calls)]
        return self._event(index, delta, logprobs, _reason(piece))

    def usage_event(self, completion_tokens: Sequence[int]) -> bytes:
        """The last event, for clients that asked for usage."""
        return sse({**self._head("chat.completion.chunk"), "choices": [], "usage": self.usage(completion_tokens)})

    def usage(self, completion_tokens: Sequence[int]) -> dict[str, int]:
        """Tokens of the prompt and of all replies."""
        sampled = sum(completion_tokens)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": sampled,
            "total_tokens": self.prompt_tokens + sampled,
        }

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
        if choice.calls:
            message |= {"content": choice.text or None, "tool_calls": choice.calls}
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(choice.tokens, choice.logps),
            "finish_reason": choice.finish,
        }

    def _event(self, index: int, delta: dict[str, Any], logprobs: Any, finish: str | None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return sse({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _logprobs(self, tokens: Sequence[int], logps: Sequence[float]) -> dict[str, Any] | None:
        if self.token_text is None:
            return None
        described = [self.token_text.describe(token, logp) for token, logp in zip(tokens, logps, strict=True)]
        return {"content": described, "refusal": None}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def _reason(piece: Piece) -> str | None:
    """Why a reply ends, in the API's words."""
    return "tool_calls" if piece.calls and piece.finish == "stop" else piece.finish


def sse(value: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"
