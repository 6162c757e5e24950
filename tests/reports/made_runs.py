"""Runs that hold what a test puts there: episodes, rows and traces, in the files that a run has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ludus.records import Episode, EpisodeId, Experiences, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId
from ludus.storage.arrow import episodes_to_table, experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import LogName, SegmentLog

CONFIG = """
name: made
games: [open_spiel:tic_tac_toe]
topology: split
train: {steps: 100}
"""
WIN = (0, 3, 1, 4, 2)
"""Moves of tic-tac-toe by which seat 0 wins."""


def ref(text: str) -> PolicyRef:
    name, _, version = text.partition("@")
    return PolicyRef(name=PolicyName(name), version=PolicyVersion(int(version or 0)))


def episode(
    number: int,
    *,
    seats: Sequence[str] = ("main@3", "random@0"),
    returns: Sequence[float] = (1.0, -1.0),
    moves: Sequence[int] = WIN,
    game: str = "open_spiel:tic_tac_toe",
    inputs: dict[str, Any] | None = None,
    **more: Any,
) -> Episode:
    sitting = tuple(Seat(policy=ref(seat), learns=place == 0) for place, seat in enumerate(seats))
    task = Task(id=TaskId(number), game=game, seed=number, seats=sitting, inputs=inputs or {}, group=f"g{number // 2}")
    return Episode(
        id=EpisodeId(f"e{number:05d}"),
        task=task,
        returns=tuple(returns),
        move_plies=np.arange(len(moves), dtype=np.int32),
        move_seats=np.array([place % len(seats) for place in range(len(moves))], np.int16),
        move_actions=np.array(moves, np.int32),
        **more,
    )


def rows_of(episodes: Sequence[Episode], length: int = 3) -> Experiences:
    """A sequence of the first seat of each."""
    count, total = len(episodes), length * len(episodes)
    text = {name: np.array([f(each) for each in episodes], object) for name, f in _TEXTS.items()}
    numbers = {"task": [int(each.task.id) for each in episodes], "attempt": [0] * count, "seat": [0] * count}
    rewards = np.array([each.returns[0] for each in episodes], np.float32)
    steps: dict[str, Any] = {
        "action": np.tile(np.arange(length, dtype=np.int32), count),
        "mask": np.ones(total, bool),
        "logp": np.linspace(-2, -1, total).astype(np.float32),
        "value": np.zeros(total, np.float32),
        "reward": np.zeros(total, np.float32),
        "version": np.full(total, 3, np.int32),
    }
    return Experiences(
        sequences={
            **text,
            **{name: np.array(values, np.int64) for name, values in numbers.items()},
            "final_reward": rewards,
            "shaped_reward": rewards,
            "truncated": np.zeros(count, bool),
        },
        offsets=np.arange(0, total + 1, length, dtype=np.int64),
        steps=steps,
    )


_TEXTS = {
    "episode": lambda each: str(each.id),
    "game": lambda each: each.task.game,
    "policy": lambda each: each.task.seats[0].policy.name,
    "group": lambda each: each.task.group,
}


def make_run(folder: Path, config: str = CONFIG) -> RunDirectory:
    run = RunDirectory(folder)
    run.create(config)
    Catalog(run.catalog).close()
    return run


def record(run: RunDirectory, episodes: Sequence[Episode], *, per_segment: int = 1000) -> None:
    with Catalog(run.catalog) as catalog:
        log = SegmentLog(run.path, "episodes", catalog)
        for start in range(0, len(episodes), per_segment):
            log.append(episodes_to_table(episodes[start : start + per_segment]))
            log.commit()


def record_rows(run: RunDirectory, rows: Experiences, log: LogName = "experiences") -> None:
    with Catalog(run.catalog) as catalog:
        segments = SegmentLog(run.path, log, catalog)
        segments.append(experiences_to_table(rows))
        segments.commit()
