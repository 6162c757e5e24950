"""What goes to a chat-completions endpoint and what comes back. A conversation is token ids: one per byte of UTF-8, and
four that mark roles; whatever is missing or odd in an answer is one clear error.

Invariant: `messages` of what `opening`, completions and `reply` were appended to gives the conversation back, so an
endpoint of text serves behind the same protocol as engines of tokens. It has the face of `lm.chat.ChatFormat`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
class ChatReply:
    """One reply."""

    text: str
    finish: Finish

    def up_to(self, stops: Sequence[str]) -> ChatReply:
        """The reply without the first of these strings and what follows it, as endpoints cut it themselves."""
        places = [place for stop in stops if (place := self.text.find(stop)) >= 0]
        return replace(self, text=self.text[: min(places)], finish="stop") if places else self

    def as_tokens(self) -> list[int]:
        """The tokens of `MessageFormat`, with the end mark unless the reply was cut at its length."""
        return [*to_bytes(self.text), *([END] if self.finish == "stop" else [])]


def read_reply(answer: Mapping[str, Any]) -> ChatReply:
    """The first choice of an answer.

    Raises:
        PolicyError: there is no reply in it.
    """
    choice, message = _first_choice(answer)
    if message is None:
        raise PolicyError(f"the endpoint's answer has no choice with a message: {str(dict(answer))[:200]}")
    reason, text = choice.get("finish_reason"), message.get("content")
    if reason in NO_REPLY or message.get("refusal"):
        raise PolicyError(f"the endpoint gave no reply: {message.get('refusal') or reason}")
    if not isinstance(text, str) or (not text and reason == "length"):
        raise PolicyError("the endpoint's reply is empty: all its tokens went elsewhere (to reasoning?); allow it more")
    return ChatReply(text=text, finish="length" if reason == "length" else "stop")


def read_usage(answer: Mapping[str, Any], messages: Sequence[Mapping[str, str]]) -> tuple[int, int, int]:
    """Tokens that an answer to `messages` is charged for, whether or not there is a reply in it: of the prompt, of that
    those that were cached, of the reply. Judged by the length of the texts where it does not say."""
    usage = answer.get("usage")
    said = usage if isinstance(usage, dict) else {}
    details = said.get("prompt_tokens_details")
    _, message = _first_choice(answer)
    reply = str((message or {}).get("content") or "")
    return (
        _count(said.get("prompt_tokens"), _estimate("".join(message["content"] for message in messages))),
        _count(details.get("cached_tokens"), 0) if isinstance(details, dict) else 0,
        _count(said.get("completion_tokens"), _estimate(reply)),
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


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
