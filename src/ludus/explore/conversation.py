"""What one seat has heard and said in a game, as one growing list of tokens.

Invariant: tokens are only ever appended, and those that a policy sampled stay as they were sampled. So the prompt of a
turn is the prompt of the turn before, what was said to it, and what has happened since: an engine can go on from what
it has computed, and a learner sees the very tokens and log-probabilities of play.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.explore.engines.protocol import Completion
from ludus.policies.chat import ChatFormat
from ludus.records import PolicyName, PolicyRef

DICTATED = PolicyRef(name=PolicyName("dictated"))
Columns = dict[str, NDArray[Any]]


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

    def __init__(self, chat: ChatFormat, system: str = "") -> None:
        self._chat = chat
        self._system = system
        self._tokens: list[int] = []
        self._completions: list[Completion] = []
        self.replies: list[Reply] = []
        self._ended = True

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def prompt(self) -> tuple[int, ...]:
        """Everything so far: what the next reply goes on from."""
        return tuple(self._tokens)

    def hear(self, text: str) -> None:
        """Take the game's next message."""
        if self._tokens:
            self._tokens += self._chat.reply(text, ended=self._ended)
            return
        system = [{"role": "system", "content": self._system}] if self._system else []
        self._tokens += self._chat.opening([*system, {"role": "user", "content": text}])

    def say(self, completion: Completion) -> str:
        """Take what the policy wrote; returns it as text."""
        start = len(self._tokens)
        self._tokens += completion.tokens.tolist()
        self._completions.append(completion)
        self._ended = completion.finish == "stop"
        self.replies.append(Reply(start=start, end=len(self._tokens)))
        return self._chat.decode(completion.tokens.tolist())

    def dictate(self, text: str) -> str:
        """Take what a fixed player says, as if a policy had written it; returns it."""
        tokens = np.array(self._chat.encode_reply(text), np.int32)
        nothing = np.zeros(len(tokens), np.float32)
        self.say(Completion(tokens=tokens, logps=nothing, values=nothing, policy=DICTATED, finish="stop"))
        return text

    def credit(self, reward: float) -> None:
        """Give a reward to the latest reply; before the first it belongs to none."""
        if self.replies:
            self.replies[-1].reward += reward

    def as_episode(self) -> Columns:
        """Step columns of the whole, up to the last reply; what others wrote is masked."""
        end = self.replies[-1].end
        columns = _blank(np.array(self._tokens[:end], np.int32))
        for reply, completion in zip(self.replies, self._completions, strict=True):
            _write(columns, reply, completion)
        return columns

    def as_turns(self, total: float) -> list[Columns]:
        """Step columns of each reply with all that came before it; every reply is given the seat's `total`."""
        rows = []
        for reply, completion in zip(self.replies, self._completions, strict=True):
            columns = _blank(np.array(self._tokens[: reply.end], np.int32))
            _write(columns, reply, completion)
            columns["reward"][reply.end - 1] = total
            rows.append(columns)
        return rows


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
    columns["mask"][said] = True
    columns["logp"][said] = completion.logps
    columns["value"][said] = completion.values
    columns["version"][said] = completion.policy.version
    columns["reward"][reply.end - 1] = reply.reward
    columns["format_ok"][reply.end - 1] = reply.format_ok
    columns["invalid"][reply.end - 1] = reply.is_invalid
