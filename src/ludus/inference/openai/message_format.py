"""A conversation with an endpoint that takes messages, as token ids: one per byte of UTF-8, and four that mark roles.

Invariant: `messages` of what `opening`, completions and `reply` were appended to gives the conversation back, so an
endpoint of text serves behind the same protocol as engines of tokens. It has the face of `policies.chat.ChatFormat`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ludus.errors import PolicyError

SYSTEM, USER, ASSISTANT, END = 256, 257, 258, 259
ROLES = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT}
NAMES = {mark: role for role, mark in ROLES.items()}

Message = Mapping[str, str]


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
