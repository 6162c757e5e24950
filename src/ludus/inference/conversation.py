"""What one seat of a game, or a policy at a task, has heard and said, as one growing list of tokens.

Invariant: tokens are only ever appended, and those that a policy sampled stay as they were sampled. So the prompt of a
turn is the prompt of the turn before, what was said to it, and what has happened since: an engine can go on from what
it has computed, and a learner sees the very tokens and log-probabilities of play.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ludus.inference.protocol import Completion
from ludus.records import PolicyName, PolicyRef

HEARD = "game"
"""Who speaks to the policy, in a transcript."""
DICTATED = PolicyRef(name=PolicyName("dictated"))
Columns = dict[str, NDArray[Any]]
Mark = tuple[int, int, bool]
"""A place in a conversation: tokens and messages before it, and whether the last reply has its end mark."""


class ChatTemplate(Protocol):
    """Makes what is said into tokens, and back: a model's chat template, or messages for an endpoint."""

    stop_tokens: frozenset[int]

    def opening(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The first messages, up to where the first reply begins."""
        ...

    def reply(self, user_text: str, *, ended: bool) -> list[int]:
        """What stands between a reply and the next; `ended`: the reply has its end mark already."""
        ...

    def encode_reply(self, text: str) -> list[int]:
        """What somebody says in the policy's place, with its end mark."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """What tokens say, without marks."""
        ...


@dataclass(slots=True, kw_only=True)
class Reply:
    """One reply: where it stands, and what came of it."""

    start: int
    end: int
    format_ok: bool = True
    is_invalid: bool = False
    reward: float = 0.0


class Conversation:
    """One seat's side of a game."""

    def __init__(self, template: ChatTemplate, system: str = "") -> None:
        self._template = template
        self._system = system
        self._tokens: list[int] = []
        self._completions: list[Completion] = []
        self.replies: list[Reply] = []
        self._ended = True
        self._spoken: list[tuple[str, str]] = []
        self._bonus = 0.0

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def prompt(self) -> tuple[int, ...]:
        """Everything so far: what the next reply goes on from."""
        return tuple(self._tokens)

    @property
    def is_cut(self) -> bool:
        """Whether the latest reply reached its length before its end."""
        return bool(self._completions) and self._completions[-1].finish == "length"

    @property
    def sampled(self) -> int:
        """Tokens that the policy has sampled so far."""
        return sum(reply.end - reply.start for reply in self.replies)

    @property
    def heard(self) -> str:
        """What was said to the policy last."""
        return next((text for who, text in reversed(self._spoken) if who == HEARD), "")

    @property
    def said(self) -> list[str]:
        """What the policy has said, reply by reply."""
        return [text for who, text in self._spoken if who == "player"][-len(self.replies) :] if self.replies else []

    def hear(self, text: str) -> None:
        """Take the next message."""
        self._spoken.append((HEARD, text))
        if self._tokens:
            self._tokens += self._template.reply(text, ended=self._ended)
            return
        system = [{"role": "system", "content": self._system}] if self._system else []
        self._tokens += self._template.opening([*system, {"role": "user", "content": text}])

    def hear_all(self, messages: Sequence[Mapping[str, str]]) -> None:
        """Take a whole conversation that others had, up to where the policy is to speak. Only as its first."""
        self._tokens += conversation_tokens(self._template, messages)
        self._spoken += [
            ("player" if message["role"] == "assistant" else HEARD, message["content"]) for message in messages
        ]

    def overhear(self, messages: Sequence[Mapping[str, str]]) -> None:
        """Take what followed the last reply: messages to the policy, and between them what others said in its place."""
        for message in messages:
            if message["role"] == "assistant":
                self._tokens += self._template.encode_reply(message["content"])
                self._ended = True
                self._spoken.append(("player", message["content"]))
            else:
                self.hear(message["content"])

    def mark(self) -> Mark:
        """Where the conversation is now, to go back to."""
        return len(self._tokens), len(self._spoken), self._ended

    def go_back(self, mark: Mark) -> None:
        """Forget what was heard since a mark. Nothing may have been said since."""
        tokens, spoken, self._ended = mark
        del self._tokens[tokens:], self._spoken[spoken:]

    def branch(self, replies: int) -> Conversation:
        """Another conversation that begins with this one up to its n-th reply; of those none is its own."""
        other = Conversation(self._template, self._system)
        end = self.replies[replies - 1].end
        other._tokens = self._tokens[:end]
        other._ended = _has_end(self._template, self._completions[replies - 1])
        said = [place for place, (who, _) in enumerate(self._spoken) if who == "player"]
        other._spoken = self._spoken[: said[replies - 1 - len(self.replies)] + 1]
        return other

    def say(self, completion: Completion) -> str:
        """Take what the policy wrote; returns it as text."""
        start = len(self._tokens)
        self._tokens += completion.tokens.tolist()
        self._completions.append(completion)
        self._ended = _has_end(self._template, completion)
        self.replies.append(Reply(start=start, end=len(self._tokens)))
        said = self._template.decode(completion.tokens.tolist())
        self._spoken.append(("player", said))
        return said

    def dictate(self, text: str) -> str:
        """Take what a fixed player says, as if a policy had written it; returns it."""
        tokens = np.array(self._template.encode_reply(text), np.int32)
        nothing = np.zeros(len(tokens), np.float32)
        self.say(Completion(tokens=tokens, logps=nothing, values=nothing, policy=DICTATED, finish="stop"))
        return text

    def credit(self, reward: float) -> None:
        """Give a reward to the latest reply; before the first it belongs to none."""
        if self.replies:
            self.replies[-1].reward += reward

    def add_bonus(self, reward: float) -> None:
        """Give a reward for the whole of what was said, besides the game's: with the last reply."""
        self.credit(reward)
        self._bonus += reward

    def transcript(self) -> str:
        """What was said, for somebody to read. Texts are indented, so nobody can speak in another's name."""
        return "\n".join(f"{who}:\n{textwrap.indent(text, '  ')}" for who, text in self._spoken)

    def as_episode(self) -> Columns:
        """Step columns of the whole, up to the last reply; what others wrote is masked."""
        end = self.replies[-1].end
        columns = _blank(np.array(self._tokens[:end], np.int32))
        for reply, completion in zip(self.replies, self._completions, strict=True):
            _write(columns, reply, completion)
        return columns

    def as_turns(self, total: float) -> list[Columns]:
        """Step columns of each reply with all that came before it; every reply is given `total` and the bonus."""
        rows = []
        for reply, completion in zip(self.replies, self._completions, strict=True):
            columns = _blank(np.array(self._tokens[: reply.end], np.int32))
            _write(columns, reply, completion)
            columns["reward"][reply.end - 1] = total + self._bonus
            rows.append(columns)
        return rows


def conversation_tokens(template: ChatTemplate, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """A conversation up to where the model speaks.

    Where user and assistant take turns, its parts are made into tokens as they were in play; otherwise as one text.
    """
    first = next((i for i, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    later = messages[first:]
    expected = ("assistant", "user") * (len(later) // 2)
    if not first or len(later) % 2 or tuple(message["role"] for message in later) != expected:
        return template.opening(messages)
    tokens = template.opening(messages[:first])
    for said, heard in zip(later[::2], later[1::2], strict=True):
        tokens += [*template.encode_reply(said["content"]), *template.reply(heard["content"], ended=True)]
    return tokens


def _has_end(template: ChatTemplate, completion: Completion) -> bool:
    """Whether it ends with the template's own mark; what was cut, or ended at a string, is still to be closed."""
    return completion.finish == "stop" and int(completion.tokens[-1]) in template.stop_tokens


def _blank(tokens: NDArray[np.int32]) -> Columns:
    count = len(tokens)
    return {
        "action": tokens,
        "mask": np.zeros(count, np.bool_),
        "logp": np.zeros(count, np.float32),
        "value": np.zeros(count, np.float32),
        "reward": np.zeros(count, np.float32),
        "version": np.zeros(count, np.int32),
        "format_ok": np.ones(count, np.bool_),
        "invalid": np.zeros(count, np.bool_),
    }


def _write(columns: Columns, reply: Reply, completion: Completion) -> None:
    said = slice(reply.start, reply.end)
    columns["mask"][said] = True if completion.sampled is None else completion.sampled
    columns["logp"][said] = completion.logps
    columns["value"][said] = completion.values
    columns["version"][said] = completion.version_of_each()
    columns["reward"][reply.end - 1] = reply.reward
    columns["format_ok"][reply.end - 1] = reply.format_ok
    columns["invalid"][reply.end - 1] = reply.is_invalid
