"""Small, valid experience to test transforms, buffers and learners with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ludus.records import Experiences

ACTIONS = 3
OBSERVATION_SHAPE = (2, 2)


def sample_experiences(
    lengths: Sequence[int] = (3, 1, 2),
    *,
    tasks: Sequence[int] | None = None,
    seats: Sequence[int] | None = None,
    games: Sequence[str] | None = None,
    rewards: Sequence[float] | None = None,
    version: int = 0,
    tokens: bool = False,
    seed: int = 0,
) -> Experiences:
    """Sequences of the given lengths, one per task unless told otherwise; the total reward arrives at the last element.

    With `tokens` they look like a language model's: no observation and no legal actions, and the first element of each
    sequence is a prompt that the policy did not choose.
    """
    rng = np.random.default_rng(seed)
    count, elements = len(lengths), int(sum(lengths))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tasks = list(range(count)) if tasks is None else list(tasks)
    final = np.asarray(rng.choice([-1.0, 0.0, 1.0], count) if rewards is None else rewards, np.float32)
    reward = np.zeros(elements, np.float32)
    reward[offsets[1:] - 1] = final
    mask = np.ones(elements, np.bool_)
    if tokens:
        mask[offsets[:-1]] = False
    steps = {
        "action": rng.integers(0, ACTIONS, elements).astype(np.int32),
        "mask": mask,
        "logp": np.log(rng.uniform(0.1, 1.0, elements)).astype(np.float32),
        "value": rng.normal(size=elements).astype(np.float32),
        "reward": reward,
        "version": np.full(elements, version, np.int32),
    }
    if not tokens:
        steps["observation"] = rng.normal(size=(elements, *OBSERVATION_SHAPE)).astype(np.float32)
        steps["legal"] = np.ones((elements, ACTIONS), np.bool_)
    sequences = {
        "episode": np.array([f"episode-{task}" for task in tasks], object),
        "task": np.array(tasks, np.int64),
        "attempt": np.zeros(count, np.int64),
        "game": np.array(["game"] * count if games is None else list(games), object),
        "seat": np.array([0] * count if seats is None else list(seats), np.int64),
        "policy": np.array(["main"] * count, object),
        "group": np.array([""] * count, object),
        "final_reward": final,
        "shaped_reward": final.copy(),
        "truncated": np.zeros(count, np.bool_),
    }
    return Experiences(sequences=sequences, offsets=offsets, steps=steps)


def sample_batches(seed: int = 0) -> list[Experiences]:
    """Batches of several kinds: two games and seats, equal rewards, one sequence, tokens."""
    return [
        sample_experiences((3, 1, 2, 5), seats=(0, 1, 0, 1), games=("a", "a", "b", "b"), seed=seed),
        sample_experiences((2, 2, 2), rewards=(1.0, 1.0, 1.0), seed=seed),
        sample_experiences((1,), seed=seed),
        sample_experiences((4, 3), tokens=True, seed=seed),
    ]


def are_equal(one: Experiences, other: Experiences) -> bool:
    """Whether two batches have the same columns with the same contents."""
    pairs = ((one.steps, other.steps), (one.sequences, other.sequences), ({"": one.offsets}, {"": other.offsets}))
    return all(
        mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        for mine, theirs in pairs
    )
