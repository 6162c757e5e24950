"""What goes to a chat-completions endpoint and what comes back. A conversation is token ids: one per byte of UTF-8, and
four that mark roles; whatever is missing or odd in an answer is one clear error.

Invariant: `messages` of what `opening`, completions and `reply` were appended to gives the conversation back, so an
endpoint of text serves behind the same protocol as engines of tokens. It has the face of `lm.chat.ChatFormat`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ludus.errors import PolicyError
from ludus.inference.protocol import Finish

SYSTEM, USER, ASSISTANT, END = 256, 257, 258, 259
ROLES = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT}
NAMES = {mark: role for role, mark in ROLES.items()}

Message = Mapping[str, str]

BYTES_PER_TOKEN = 3
"""Assumed, on the dear side, where an endpoint does not say how many tokens it used."""
NO_REPLY = ("content_filter", "tool_calls", "function_call")
"""Reasons to finish that leave no reply to play with."""

Piece = tuple[bytes, float]
"""One of the endpoint's tokens: what it spells, and its log-probability."""


class MessageFormat:
    """Messages to tokens and back. Stateless."""

    stop_tokens: frozenset[int] = frozenset({END})

    def opening(self, messages: Sequence[Message]) -> list[int]:
        """A conversation up to where the first reply begins."""
        tokens: list[int] = []
        for message in messages:
            tokens += [ROLES[message["role"]], *to_bytes(message["content"]), END]
        return [*tokens, ASSISTANT]

    def reply(self, user_text: str, *, ended: bool) -> list[int]:
        """What stands between a reply and the next; `ended` says whether the reply has its end mark already."""
        end = [] if ended else [END]
        return [*end, USER, *to_bytes(user_text), END, ASSISTANT]

    def encode_reply(self, text: str) -> list[int]:
        """What somebody says in the model's place, with its end mark."""
        return [*to_bytes(text), END]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text without marks."""
        return bytes(token for token in tokens if token < SYSTEM).decode(errors="replace")

    def messages(self, tokens: Sequence[int]) -> list[dict[str, str]]:
        """The conversation that tokens stand for. What has no role is the user's; an empty last message is left out."""
        found: list[tuple[int, bytearray]] = []
        role = USER
        for token in tokens:
            if token in NAMES:
                role = token
                found.append((role, bytearray()))
            elif token == END:
                role = USER if role == ASSISTANT else ASSISTANT
            elif 0 <= token < SYSTEM:
                if not found or found[-1][0] != role:
                    found.append((role, bytearray()))
                found[-1][1].append(token)
            else:
                raise PolicyError(f"token {token} is none of a conversation in messages; its tokens are 0 to {END}")
        if found and not found[-1][1]:
            found.pop()
        return [{"role": NAMES[role], "content": text.decode(errors="replace")} for role, text in found]


def to_bytes(text: str) -> bytes:
    """UTF-8; half a surrogate pair, which JSON can carry, becomes a question mark."""
    return text.encode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that an answer is charged for, whether or not there is a reply in it."""

    prompt: int
    cached: int
    """Of the prompt."""
    completion: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """One reply."""

    text: str
    finish: Finish
    pieces: tuple[Piece, ...] | None
    """What `text` is made of, where the endpoint was asked for log-probabilities."""
    end_logp: float
    """Log-probability of ending here, where the endpoint gave it; else 0."""

    def as_bytes(self, end: int) -> tuple[list[int], list[float]]:
        """Bytes and log-probabilities; `end` stands behind a reply that was not cut at its length."""
        pieces = self.pieces if self.pieces is not None else ((to_bytes(self.text), 0.0),)
        tokens: list[int] = []
        logps: list[float] = []
        for spelled, logp in pieces:
            tokens += spelled
            logps += [logp] + [0.0] * (len(spelled) - 1) if spelled else []
        if self.finish == "stop":
            return [*tokens, end], [*logps, self.end_logp]
        return tokens, logps


def read_reply(answer: Mapping[str, Any], *, needs_logprobs: bool = False) -> ChatReply:
    """The first choice of an answer.

    Raises:
        PolicyError: there is no reply in it, or what was asked for is missing.
    """
    choice, message = _first_choice(answer)
    if message is None:
        raise PolicyError(f"the endpoint's answer has no choice with a message: {str(dict(answer))[:200]}")
    reason, text = choice.get("finish_reason"), message.get("content")
    if reason in NO_REPLY or message.get("refusal"):
        raise PolicyError(f"the endpoint gave no reply: {message.get('refusal') or reason}")
    if not isinstance(text, str) or (not text and reason == "length"):
        raise PolicyError("the endpoint's reply is empty: all its tokens went elsewhere (to reasoning?); allow it more")
    pieces, end_logp = _pieces(choice, text) if needs_logprobs else (None, 0.0)
    return ChatReply(text=text, finish="length" if reason == "length" else "stop", pieces=pieces, end_logp=end_logp)


def read_usage(answer: Mapping[str, Any], messages: Sequence[Mapping[str, str]]) -> Usage:
    """What an answer to `messages` used; judged by the length of the texts where it does not say."""
    usage = answer.get("usage")
    said = usage if isinstance(usage, dict) else {}
    details = said.get("prompt_tokens_details")
    _, message = _first_choice(answer)
    reply = str((message or {}).get("content") or "")
    return Usage(
        prompt=_count(said.get("prompt_tokens"), _estimate("".join(message["content"] for message in messages))),
        cached=_count(details.get("cached_tokens"), 0) if isinstance(details, dict) else 0,
        completion=_count(said.get("completion_tokens"), _estimate(reply)),
    )


def _first_choice(answer: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The first choice and its message; None where there is none."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return {}, None
    return choice, message


def _estimate(text: str) -> int:
    return -(-len(to_bytes(text)) // BYTES_PER_TOKEN)


def _pieces(choice: Mapping[str, Any], text: str) -> tuple[tuple[Piece, ...], float]:
    """The tokens that spell the text. Some servers list the mark that ended the reply, too: the rest is its share."""
    try:
        entries = choice["logprobs"]["content"]
        pieces = [_piece(entry) for entry in entries]
    except (KeyError, TypeError, ValueError) as error:
        raise PolicyError(f"the endpoint gave no usable log-probabilities: {type(error).__name__}: {error}") from None
    for count in range(len(pieces), max(len(pieces) - 3, -1), -1):
        spelled = b"".join(piece for piece, _ in pieces[:count])
        if spelled.decode(errors="replace") == text:
            while count and not pieces[count - 1][0]:
                count -= 1
            return tuple(pieces[:count]), sum(logp for _, logp in pieces[count:])
    raise PolicyError("the endpoint's tokens with log-probabilities do not spell its reply")


def _piece(entry: Mapping[str, Any]) -> Piece:
    logp = float(entry["logprob"])
    if not math.isfinite(logp):
        raise ValueError(f"log-probability {logp}")
    spelled = entry.get("bytes")
    return (to_bytes(str(entry["token"])) if spelled is None else bytes(spelled)), logp


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
