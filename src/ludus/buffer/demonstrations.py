"""Demonstrations and preferences as people write them, made into rows of tokens.

    {prompt, response}, {prompt, response, system}, {messages: [..., {role: assistant, content}]}
    {prompt, chosen, rejected}, with answers as text or as conversations that end with them

Invariant: a row's tokens are those that the model would have seen and said in a rollout of the same conversation, and
its mask is on the assistant's answers, each with the token that ends it. Texts that hold a mark of the model cannot
speak in another's name. Log-probabilities are 0: nobody knows them, and imitation does not ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.inference.conversation import ChatTemplate
from ludus.records import REQUIRED_STEP_COLUMNS, SEQUENCE_COLUMNS, Experiences

Message = dict[str, str]
ROLES = ("system", "user", "assistant")


class BadDemonstration(ValueError):
    """What is wrong with one row; it costs that row only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """One conversation as tokens."""

    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]
    """Where the assistant speaks."""


def read_messages(fields: Mapping[str, Any], *, system: str = "") -> list[Message]:
    """The conversation of one expert row; `system` is put before one that has no system message.

    Raises:
        BadDemonstration: it is none.
    """
    if "messages" in fields:
        messages = _conversation(fields["messages"], "messages")
    else:
        messages = [
            {"role": "user", "content": _text(fields, "prompt")},
            {"role": "assistant", "content": _text(fields, "response")},
        ]
    if messages[-1]["role"] != "assistant":
        raise BadDemonstration("field messages: expected the assistant to speak last")
    return _with_system(messages, fields, system)


def read_pair(fields: Mapping[str, Any], *, system: str = "") -> tuple[list[Message], list[Message]]:
    """The conversations with the chosen and with the rejected answer of one preference.

    Raises:
        BadDemonstration: it is none.
    """
    both = []
    for name in ("chosen", "rejected"):
        before, answer = _answer(fields, name)
        both.append((before, [*before, {"role": "assistant", "content": answer}]))
    (before, chosen), (other, rejected) = both
    if before != other:
        raise BadDemonstration("fields chosen and rejected: expected answers to the same conversation")
    if chosen == rejected:
        raise BadDemonstration("fields chosen and rejected: expected two different answers")
    return _with_system(chosen, fields, system), _with_system(rejected, fields, system)


def encode_messages(
    chat: ChatTemplate, messages: Sequence[Message], *, context: int, only_last: bool = False
) -> TokenRow:
    """A conversation as tokens. All of the assistant's answers count, or `only_last` the last.

    Raises:
        BadDemonstration: it is longer than the model's context.
    """
    first = next(place for place, message in enumerate(messages) if message["role"] == "assistant")
    tokens = list(chat.opening(messages[:first]))
    spans: list[tuple[int, int]] = []
    for message in messages[first:]:
        if message["role"] == "user":
            tokens += chat.reply(message["content"], ended=True)
            continue
        start = len(tokens)
        tokens += chat.encode_reply(message["content"])
        spans.append((start, len(tokens)))
    if len(tokens) > context:
        raise BadDemonstration(f"{len(tokens)} tokens do not fit the model's context of {context}")
    mask = np.zeros(len(tokens), np.bool_)
    for start, end in spans[-1:] if only_last else spans:
        mask[start:end] = True
    return TokenRow(tokens=np.array(tokens, np.int32), mask=mask)


def as_rows(
    rows: Sequence[TokenRow], *, origin: str, first: int = 0, game: str = "expert", pairs: bool = False
) -> Experiences:
    """Token rows as experience, numbered from `first` on; with `pairs`, each two that follow each other are one.

    Args:
        origin: Where they come from; with its number it gives a row its name.
    """
    count = len(rows)
    lengths = [len(row.tokens) for row in rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    elements, numbers = int(offsets[-1]), np.arange(first, first + count)
    sequences: dict[str, NDArray[Any]] = {
        "episode": np.array([row_name(origin, number) for number in numbers.tolist()], object),
        "task": numbers.astype(np.int64),
        "attempt": np.zeros(count, np.int64),
        "game": np.full(count, game, object),
        "seat": np.zeros(count, np.int64),
        "policy": np.full(count, "expert", object),
        "group": np.full(count, "", object),
        "final_reward": np.zeros(count, np.float32),
        "shaped_reward": np.zeros(count, np.float32),
        "truncated": np.zeros(count, np.bool_),
    }
    if pairs:
        sequences |= {"pair": numbers // 2, "chosen": numbers % 2 == 0}
    steps: dict[str, NDArray[Any]] = {
        "action": np.concatenate([np.zeros(0, np.int32), *(row.tokens for row in rows)]),
        "mask": np.concatenate([np.zeros(0, np.bool_), *(row.mask for row in rows)]),
        "logp": np.zeros(elements, np.float32),
        "value": np.zeros(elements, np.float32),
        "reward": np.zeros(elements, np.float32),
        "version": np.zeros(elements, np.int32),
    }
    return Experiences(sequences=sequences, offsets=offsets, steps=steps)


def as_expert_rows(rows: Experiences, *, origin: str, first: int) -> Experiences:
    """Rows of games or of another run as expert rows: the documented columns alone, with names of their own."""
    numbers = np.arange(first, first + len(rows))
    own: dict[str, NDArray[Any]] = {
        "episode": np.array([row_name(origin, number) for number in numbers.tolist()], object),
        "task": numbers,
        "attempt": np.zeros(len(rows), np.int64),
        "seat": np.zeros(len(rows), np.int64),
        "group": np.full(len(rows), "", object),
    }
    boards = [name for name in ("observation", "legal") if name in rows.steps]
    steps = {name: rows.steps[name] for name in (*REQUIRED_STEP_COLUMNS, *boards)}
    return Experiences(
        sequences={name: own[name] if name in own else rows.sequences[name] for name in SEQUENCE_COLUMNS},
        offsets=rows.offsets,
        # Versions of other policies say nothing about this one.
        steps={**steps, "version": np.zeros(rows.step_count, np.int32)},
    )


def row_name(origin: str, number: int) -> str:
    """The episode id of a row that no episode brought."""
    return blake2b(f"{origin}/{number}".encode(), digest_size=12).hexdigest()


def _answer(fields: Mapping[str, Any], name: str) -> tuple[list[Message], str]:
    """What came before one of two answers, and the answer."""
    given = fields.get(name)
    if not isinstance(given, list):
        return [{"role": "user", "content": _text(fields, "prompt")}], _text(fields, name)
    if len(given) == 1 and "prompt" in fields and isinstance(given[0], dict) and given[0].get("role") == "assistant":
        return [{"role": "user", "content": _text(fields, "prompt")}], _text(given[0], "content", name)
    messages = _conversation(given, name)
    if messages[-1]["role"] != "assistant":
        raise BadDemonstration(f"field {name}: expected the assistant to speak last")
    return messages[:-1], messages[-1]["content"]


def _conversation(given: Any, name: str) -> list[Message]:
    """A list of messages: perhaps one of the system, then user and assistant in turn."""
    if not isinstance(given, list) or not given:
        raise BadDemonstration(f"field {name}: expected a list of messages with role and content")
    messages: list[Message] = []
    for message in given:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES:
            raise BadDemonstration(f"field {name}: expected messages of {', '.join(ROLES)}, got {str(role)[:40]!r}")
        messages.append({"role": role, "content": _text(message, "content", name)})
    turns = [message["role"] for message in messages[1 if messages[0]["role"] == "system" else 0 :]]
    if not turns or turns != [("user", "assistant")[place % 2] for place in range(len(turns))]:
        raise BadDemonstration(f"field {name}: expected user and assistant in turn, after at most one system message")
    return messages


def _with_system(messages: list[Message], fields: Mapping[str, Any], system: str) -> list[Message]:
    if messages[0]["role"] == "system":
        return messages
    said = fields["system"] if fields.get("system") is not None else system
    if not isinstance(said, str):
        raise BadDemonstration("field system: expected text")
    return [{"role": "system", "content": said}, *messages] if said else messages


def _text(fields: Mapping[str, Any], name: str, within: str = "") -> str:
    where = f"field {within}: {name}" if within else f"field {name}"
    if name not in fields:
        raise BadDemonstration(f"{where} is missing; it has {', '.join(map(str, fields))[:200] or 'none'}")
    if not isinstance(fields[name], str) or not fields[name].strip():
        raise BadDemonstration(f"{where}: expected text that is not blank")
    return str(fields[name])
