"""One episode as a page shows it: who played, how it ended, its boards or what was said, its tokens.

Invariant: plain values, bounded, for every recording; what was not recorded is absent or None, never zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ludus.games.board_frames import replay_game
from ludus.lm.model_text import Decoder
from ludus.records import Episode
from ludus.reports.sequence_finder import SequenceView

MOST_TOKENS = 40_000
MOST_TEXT = 200_000
"""Characters of one thing that was said."""
MOST_TOKEN_TEXT = 300
"""Characters of one token: a vocabulary may hold anything."""
NEARLY_ALL = 0.98
_INTEGERS = ("action", "version")


def view_episode(episode: Episode, sequences: Sequence[SequenceView]) -> dict[str, Any]:
    """Everything but the tokens."""
    task = episode.task
    view: dict[str, Any] = {
        "id": episode.id,
        "game": task.game,
        "purpose": task.purpose,
        "task": task.id,
        "attempt": task.attempt,
        "row": task.inputs.get("row"),
        "group": task.group,
        "seed": str(task.seed),  # JavaScript knows 53 bits of a number
        "seats": [{"policy": str(seat.policy), "label": seat.label, "learns": seat.learns} for seat in task.seats],
        "returns": list(episode.returns),
        "rewards": dict(episode.rewards),
        "length": episode.length,
        "sampled": episode.sampled,
        "truncated": episode.truncated,
        "error": episode.error,
        "duration_s": episode.duration_s,
        "sequences": [_card(number, each) for number, each in enumerate(sequences)],
    }
    if episode.replies or task.game.startswith("tasks:"):
        return {**view, "turns": list(_turns(episode)), "board": None}
    replay = replay_game(episode)
    board = {**asdict(replay), "frames": [asdict(frame) for frame in replay.frames]}
    return {**view, "turns": [], "board": board, "decisions": list(_decisions(episode, sequences))}


def view_tokens(
    view: SequenceView, decode: Decoder | None, *, offset: int = 0, limit: int = MOST_TOKENS
) -> dict[str, Any]:
    """A part of a sequence's elements by column; numbers that are not finite become null in JSON."""
    begin = min(max(0, offset), view.length)
    end = min(begin + max(1, min(limit, MOST_TOKENS)), view.length)
    derived = view.derived()
    columns = {name: _listed(name, column[begin:end]) for name, column in derived.items()}
    tokens = columns.get("action", [])
    return {
        "offset": begin,
        "total": view.length,
        "update": view.update,
        "columns": columns,
        "scales": _scales(derived),
        "texts": None if decode is None else list(_texts(tokens, decode)),
    }


def _scales(columns: Mapping[str, Any]) -> dict[str, list[float]]:
    """Of the whole sequence: between which two values nearly all of what the policy chose lies, for colours."""
    mask, found = np.asarray(columns.get("mask", ()), bool), dict[str, list[float]]()
    for name, column in columns.items():
        own = np.asarray(column, np.float64)[mask] if name != "mask" and len(column) == len(mask) else np.zeros(0)
        own = own[np.isfinite(own)]
        if len(own):
            found[name] = np.quantile(own, [1 - NEARLY_ALL, NEARLY_ALL], method="nearest").tolist()
    return found


def _card(number: int, view: SequenceView) -> dict[str, Any]:
    names = ("seat", "turn", "policy", "group", "final_reward", "shaped_reward", "status", "reason", "update")
    return {
        "number": number,
        **{name: getattr(view, name) for name in names},
        "length": view.length,
        "recorded": list(view.derived()),
    }


def _turns(episode: Episode) -> Iterator[dict[str, Any]]:
    """What was said in words: the move that was found in it and, of an attempt, what was told before."""
    is_attempt = episode.task.game.startswith("tasks:")
    seats, accepted = episode.move_seats.tolist(), episode.move_actions.tolist()
    for number, (text, reply) in enumerate(zip(episode.move_texts, episode.replies, strict=False)):
        seat = seats[number] if number < len(seats) else 0
        if is_attempt:
            yield {"role": "told", "seat": seat, "text": text[:MOST_TEXT]}
            yield {"role": "said", "seat": seat, "text": reply[:MOST_TEXT]}
        else:
            is_legal = bool(accepted[number]) if number < len(accepted) else True
            yield {"role": "said", "seat": seat, "text": reply[:MOST_TEXT], "move": text[:1000], "accepted": is_legal}


def _decisions(episode: Episode, sequences: Sequence[SequenceView]) -> Iterator[dict[str, Any]]:
    """What is known of each move of a seat that learns: its probability, value and advantage, by ply."""
    for view in sequences:
        plies = [ply for ply, seat, _ in episode.turns() if seat == view.seat]
        if view.turn is not None or len(plies) != view.length:
            continue
        columns = view.derived()
        for place, ply in enumerate(plies):
            known = {name: float(columns[name][place]) for name in columns if name not in ("action", "mask")}
            yield {"ply": ply, "seat": view.seat, **known}


def _listed(name: str, column: Any) -> list[Any]:
    if name == "mask":
        return [bool(each) for each in column.tolist()]
    if name in _INTEGERS:
        return list(column.tolist())
    # A float of 32 bits in as many digits as tell it from others.
    return [float(str(each)) for each in np.asarray(column, np.float32)]


def _texts(tokens: Sequence[int], decode: Decoder) -> Iterator[str]:
    """Each token on its own; one that is part of a character shows the replacement sign."""
    known: dict[int, str] = {}
    for token in tokens:
        if token not in known:
            text = decode([token], True)
            known[token] = text if len(text) <= MOST_TOKEN_TEXT else f"{text[:MOST_TOKEN_TEXT]}…"
        yield known[token]
