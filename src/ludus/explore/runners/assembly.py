"""Turn finished episodes into one columnar batch: the explorer's output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.explore.runners.slot import SeatTrace, Slot
from ludus.inference.conversation import Columns, Conversation
from ludus.records import SEQUENCE_COLUMNS, Episode, EpisodeBatch, Experiences

DTYPES = {
    "task": np.int64,
    "attempt": np.int64,
    "seat": np.int64,
    "final_reward": np.float32,
    "shaped_reward": np.float32,
    "truncated": np.bool_,
    "turn": np.int64,
}

Row = tuple[dict[str, Any], Columns]
"""The sequence columns of one sequence of tokens, and its step columns."""


def assemble(finished: list[tuple[Slot | None, Episode]]) -> EpisodeBatch:
    """Gather episodes and, of those that ended well, the sequences of their learning seats."""
    experiences = assemble_traces((episode, slot.traces) for slot, episode in finished if slot)
    return EpisodeBatch(episodes=tuple(episode for _, episode in finished), experiences=experiences)


def assemble_traces(finished: Iterable[tuple[Episode, Mapping[int, SeatTrace]]]) -> Experiences:
    """The sequences of episodes whose learning seats have these traces, as one columnar batch."""
    rows: list[dict[str, Any]] = []
    traces: list[SeatTrace] = []
    versions: list[int] = []
    for episode, by_seat in finished:
        for seat, trace in by_seat.items():
            if trace.decisions:
                rows.append(sequence_facts(episode, seat))
                traces.append(trace)
                versions.append(int(episode.task.seats[seat].policy.version))
    return _columns(rows, traces, versions)


def sequence_facts(episode: Episode, seat: int) -> dict[str, Any]:
    """The sequence columns of one learning seat."""
    task = episode.task
    return {
        "episode": episode.id,
        "task": task.id,
        "attempt": task.attempt,
        "game": task.game,
        "seat": seat,
        "policy": str(task.seats[seat].policy.name),
        "group": task.group,
        "final_reward": episode.returns[seat],
        "shaped_reward": episode.returns[seat],
        "truncated": episode.truncated,
    }


def conversation_rows(
    episode: Episode, seat: int, conversations: Iterable[Conversation], *, by_turn: bool
) -> list[Row]:
    """The sequences of a seat's conversations, one of each, or with `by_turn` one of each of their replies."""
    facts = sequence_facts(episode, seat)
    parts: list[Columns] = []
    for conversation in conversations:
        if conversation.replies:
            parts += conversation.as_turns(facts["final_reward"]) if by_turn else [conversation.as_episode()]
    return [({**facts, "turn": turn}, columns) for turn, columns in enumerate(parts)]


def gather_rows(rows: Sequence[Row], *, has_turns: bool) -> Experiences:
    """One batch of these sequences; `has_turns`: they say which turn of their seat they are."""
    if not rows:
        return Experiences.empty()
    names = (*SEQUENCE_COLUMNS, "turn") if has_turns else SEQUENCE_COLUMNS
    parts = [columns for _, columns in rows]
    lengths = [len(part["action"]) for part in parts]
    return Experiences(
        sequences=_sequence_columns(names, [facts for facts, _ in rows]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        steps={name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
    )


def _sequence_columns(names: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    return {name: np.array([row[name] for row in rows], DTYPES.get(name, object)) for name in names}


def _columns(rows: list[dict[str, Any]], traces: list[SeatTrace], versions: list[int]) -> Experiences:
    if not rows:
        return Experiences.empty()
    lengths = [len(trace.decisions) for trace in traces]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    decisions = [decision for trace in traces for decision in trace.decisions]
    observations, legal, actions, logps, values = zip(*decisions, strict=True)
    steps = {
        "action": np.array(actions, np.int32),
        "mask": np.ones(len(decisions), np.bool_),
        "logp": np.array(logps, np.float32),
        "value": np.array(values, np.float32),
        "reward": np.zeros(len(decisions), np.float32),
        "version": np.repeat(np.array(versions, np.int32), lengths),
        "observation": _joined(observations),
        "legal": _joined(legal),
    }
    if states := [state for trace in traces for state in trace.states]:
        steps["state"] = _joined(states)
    for trace, start in zip(traces, offsets.tolist(), strict=False):
        for number, reward in trace.credits.items():
            steps["reward"][start + number] = reward
        for number in trace.noise:
            steps["mask"][start + number] = False
    return Experiences(sequences=_sequence_columns(SEQUENCE_COLUMNS, rows), offsets=offsets, steps=steps)


def _joined(rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The same as `np.stack`, five times as fast for many small rows."""
    return np.concatenate(rows).reshape(len(rows), *rows[0].shape)
