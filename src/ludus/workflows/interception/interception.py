"""What one program says to the policy in one attempt, kept as conversations of true tokens.

A request that goes on from a reply extends that reply's conversation. One that goes on from an earlier reply, or from
one that another request is going on from already, begins a conversation with the same tokens, of which none counts as
said in it again. Any other begins anew.

Invariants: a reply that was given stands in exactly one conversation as sampled, up to and with the token that
completed a stop string: the policy chose that one, too. What it sampled beyond is never shown and never learnt from. A
request that fails leaves conversations as they were. Seeds depend on what was heard, not on when requests arrive.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from ludus.http.answers import Piece
from ludus.http.chat_request import BadRequest
from ludus.inference.conversation import Conversation
from ludus.inference.policy_sampler import Interrupted
from ludus.inference.protocol import Completion, Finish
from ludus.records import derive_seed
from ludus.workflows.interception.agent_request import AgentRequest, Reward, Turn, read_turns, said_turn
from ludus.workflows.protocol import Outcome
from ludus.workflows.rollout_model import Chat, OutOfRoom, RolloutModel
from ludus.workflows.tools.calls import ToolCall, find_calls, text_around

TOKENS_AT_ONCE = 16
"""Sampled between two looks for a stop string."""


@dataclass(slots=True)
class _Talk:
    """One conversation of the interception."""

    chat: Chat
    turns: list[Turn]
    is_busy: bool = False


@dataclass(slots=True, kw_only=True)
class _Judged:
    """What the program said about its attempt."""

    whole: float | None = None
    response: str | None = None
    steps: dict[int, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A reply of the policy, up to a stop string if there are any."""

    completion: Completion
    text: str
    """Without the stop string and what came after it."""
    finish: Finish


class Interception:
    """The conversations of one attempt. Belongs to the event loop of its model."""

    def __init__(self, model: RolloutModel) -> None:
        self.model = model
        self._places: dict[tuple[Turn, ...], tuple[_Talk, int]] = {}
        """Replies that conversations can go on from: the conversation, and how many replies it has up to there."""
        self._asked: Counter[str] = Counter()
        self._completions: dict[str, list[int]] = {}
        self._judged = _Judged()

    async def reply(self, request: AgentRequest, *, id: str, choice: int = 0) -> Piece:
        """One reply to a request. Those to one request have one id and different choices.

        Raises:
            BadRequest: the conversation cannot be replied to, or does not fit into the context.
            RolloutError: the policy cannot answer.
        """
        turns = read_turns(request)
        talk = self._begin(turns)
        conversation = talk.chat.conversation
        before = conversation.mark()
        talk.is_busy = True
        try:
            messages = [turn.plain() for turn in turns[len(talk.turns) :]]
            if talk.turns:
                conversation.overhear(messages)
            else:
                conversation.hear_all(messages)
            written = await self._write(talk.chat, request)
            self._completions.setdefault(id, [-1] * request.n)[choice] = len(self.model.said)
            talk.chat.take(written.completion)
        except BaseException:
            conversation.go_back(before)
            raise
        finally:
            talk.is_busy = False
        calls = _calls(written.text) if request.offered else []
        said = text_around(written.text) if calls else written.text
        talk.turns = [*turns, said_turn(said, calls)]
        self._places[tuple(talk.turns)] = talk, len(conversation.replies)
        return Piece(
            text=said,
            tokens=tuple(written.completion.tokens.tolist()),
            logps=tuple(written.completion.logps.tolist()),
            finish=written.finish,
            calls=tuple(_as_api(call, f"{id}-{choice}-{number}") for number, call in enumerate(calls)),
        )

    def prompt_tokens(self, id: str) -> int:
        """How long the prompt of a completion's first choice was."""
        said = self.model.said[self._completions[id][0]]
        return self.model.chats[said.chat].conversation.replies[said.reply].start

    def judge(self, given: Reward) -> None:
        """Take what the program says its attempt is worth.

        Raises:
            BadRequest: there is no such completion.
        """
        judged = self._judged
        judged.metrics |= given.metrics
        judged.response = given.response if given.response is not None else judged.response
        if given.reward is None:
            return
        if given.completion is None:
            judged.whole = given.reward
            return
        numbers = self._completions.get(given.completion, [])
        if given.choice >= len(numbers) or numbers[given.choice] < 0:
            raise BadRequest(f"there is no completion {given.completion!r} with choice {given.choice}", status=404)
        judged.steps[numbers[given.choice]] = given.reward

    def outcome(self, returned: Any) -> Any:
        """What the attempt comes to: what the program returned, and where that says nothing, what it told."""
        if isinstance(returned, Outcome) or self._judged == _Judged():
            return returned
        judged, said = self._judged, self.model.said
        if isinstance(returned, str):
            response, whole = returned, judged.whole
        else:
            response = judged.response if judged.response is not None else said[-1].text if said else ""
            whole = judged.whole if returned is None else returned
        steps = [judged.steps.get(number, 0.0) for number in range(len(said))] if judged.steps else []
        return Outcome(response=response, reward=whole, step_rewards=steps, metrics=judged.metrics)

    # -- conversations ---------------------------------------------------------------------------------------------

    def _begin(self, turns: Sequence[Turn]) -> _Talk:
        """The conversation in which a request is to be replied to; its turns are those that it has already."""
        for known in range(len(turns) - 1, 0, -1):
            place = self._places.get(tuple(turns[:known]))
            if place is None:
                continue
            talk, replies = place
            if not talk.is_busy and len(talk.turns) == known:
                return talk
            branch = talk.chat.conversation.branch(replies)
            return _Talk(self.model.add_chat(branch), list(turns[:known]))
        return _Talk(self.model.add_chat(Conversation(self.model.template)), [])

    async def _write(self, chat: Chat, request: AgentRequest) -> Written:
        heard = blake2b(repr(chat.conversation.prompt).encode(), digest_size=16).hexdigest()
        self._asked[heard] += 1
        try:
            return await _write_reply(
                self.model,
                chat,
                seed=self.model.reply_seed("heard", heard, self._asked[heard]),
                max_tokens=request.max_completion_tokens or request.max_tokens or self.model.max_tokens,
                stops=request.stop,
            )
        except OutOfRoom as error:
            raise BadRequest(str(error), parameter="messages", code="context_length_exceeded") from error
        except Interrupted as error:
            raise BadRequest(f"the attempt begins again: {error}", status=503) from error


def _calls(text: str) -> list[ToolCall]:
    """The calls of a reply, if all of them can be made; else it is plain text."""
    calls = find_calls(text)
    return calls if not any(call.problem for call in calls) else []


def _as_api(call: ToolCall, id: str) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": f"call_{id}", "type": "function", "function": {"name": call.name, "arguments": arguments}}


async def _write_reply(model: RolloutModel, chat: Chat, *, seed: int, max_tokens: int, stops: Sequence[str]) -> Written:
    """Have the policy reply to what a chat has heard; the chat does not have the reply yet.

    Raises:
        OutOfRoom, PolicyError, TimeoutExceeded: as the model raises them.
    """
    decode = model.template.decode
    if not stops:
        whole = await model.sample(chat.conversation, chat=chat.number, seed=seed, max_tokens=max_tokens)
        return Written(completion=whole, text=decode(whole.tokens.tolist()), finish=whole.finish)
    parts: list[Completion] = []
    tokens: list[int] = []
    while True:
        left = min(max_tokens, model.room(chat.conversation)) - len(tokens)
        part = await model.sample(
            chat.conversation,
            chat=chat.number,
            seed=derive_seed(seed, len(tokens)),
            max_tokens=min(left, TOKENS_AT_ONCE),
            after=tokens,
        )
        parts.append(part)
        before = len(tokens)
        tokens += part.tokens.tolist()
        if (end := _through_stop(tokens, before, decode, stops)) is not None:
            return Written(
                completion=_joined(parts, end, "length"), text=_up_to_stop(decode(tokens[:end]), stops), finish="stop"
            )
        if part.finish == "stop" or left <= len(part.tokens):
            return Written(completion=_joined(parts, len(tokens), part.finish), text=decode(tokens), finish=part.finish)


def _through_stop(
    tokens: list[int], known: int, decode: Callable[[Sequence[int]], str], stops: Sequence[str]
) -> int | None:
    """How many tokens there are up to and with the one that completes a stop string, of which none ended before."""
    if not _has_stop(decode(tokens), stops):
        return None
    return next(end for end in range(known + 1, len(tokens) + 1) if _has_stop(decode(tokens[:end]), stops))


def _has_stop(text: str, stops: Sequence[str]) -> bool:
    return any(stop in text for stop in stops)


def _up_to_stop(text: str, stops: Sequence[str]) -> str:
    return text[: min(place for stop in stops if (place := text.find(stop)) >= 0)]


def _joined(parts: Sequence[Completion], end: int, finish: Finish) -> Completion:
    """Parts as one completion of so many tokens; cut at a stop string its turn is still to be closed ("length")."""
    return Completion(
        tokens=np.concatenate([part.tokens for part in parts])[:end],
        logps=np.concatenate([part.logps for part in parts])[:end],
        values=np.concatenate([part.values for part in parts])[:end],
        policy=parts[-1].policy,
        finish=finish,
    )
