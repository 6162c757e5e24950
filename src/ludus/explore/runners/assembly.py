"""Turn finished slots into one columnar batch: the explorer's output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.explore.runners.slot import SeatTrace, Slot
from ludus.records import SEQUENCE_COLUMNS, Episode, EpisodeBatch, Experiences

DTYPES = {
    "task": np.int64,
    "attempt": np.int64,
    "seat": np.int64,
    "final_reward": np.float32,
    "shaped_reward": np.float32,
    "truncated": np.bool_,
}


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
    sequences: dict[str, NDArray[Any]] = {}
    for name in SEQUENCE_COLUMNS:
        sequences[name] = np.array([row[name] for row in rows], DTYPES.get(name, object))
    return Experiences(sequences=sequences, offsets=offsets, steps=steps)


def _joined(rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The same as `np.stack`, five times as fast for many small rows."""
    return np.concatenate(rows).reshape(len(rows), *rows[0].shape)
