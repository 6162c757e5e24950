"""One reply of the policy, up to a stop string if there are any.

Invariant: the tokens of a reply are what the engine sampled, up to and with the one that completed the stop string: the
policy chose that one, too. What it sampled beyond is thrown away, never shown and never learnt from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ludus.inference.protocol import Completion, Finish
from ludus.records import derive_seed
from ludus.workflows.rollout_model import Chat, RolloutModel

TOKENS_AT_ONCE = 16
"""Sampled between two looks for a stop string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A reply."""

    completion: Completion
    text: str
    """Without the stop string and what came after it."""
    finish: Finish


async def write_reply(model: RolloutModel, chat: Chat, *, seed: int, max_tokens: int, stops: Sequence[str]) -> Written:
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
