"""The promises of a reward transform, as one public check.

from ludus.testing.transforms import check_transform
def test_mine(): check_transform("final", lambda: Mine(scale=2.0))
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from ludus.experience import Transform, TransformPhase
from ludus.records import Experiences
from ludus.testing.conformance import ConformanceError
from ludus.testing.experiences import sample_experiences


def check_transform(phase: TransformPhase, factory: Callable[[], Transform], *, seed: int = 0) -> None:
    """Raise `ConformanceError` naming the promise that the transform breaks.

    Covered: shape, finiteness (also for equal rewards and for one sequence), arguments left alone, the same result from
    the same state, and state that survives JSON. Not covered: whether the formula is the one you meant.
    """
    for batch in _batches(seed):
        transform = factory()
        values = _values(phase, batch)
        kept = values.copy()
        reward = batch.steps["reward"].copy()
        first = np.asarray(transform.apply(values, batch))
        _require(first.shape == values.shape, f"apply returned shape {first.shape} for {values.shape} values")
        _require(bool(np.isfinite(first).all()), "apply returned values that are not finite")
        _require(np.array_equal(values, kept), "apply changed its values in place")
        _require(np.array_equal(batch.steps["reward"], reward), "apply changed the experiences")
        _require(np.array_equal(factory().apply(kept, batch), first), "a fresh transform gave another result")
        _check_state(factory, transform, phase, seed)


def _check_state(factory: Callable[[], Transform], transform: Transform, phase: TransformPhase, seed: int) -> None:
    try:
        state = json.loads(json.dumps(transform.state(), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConformanceError(f"state is not JSON: {error}") from error
    resumed = factory()
    resumed.load_state(state)
    batch = sample_experiences((2, 4, 1), seed=seed + 1)
    values = _values(phase, batch)
    same = np.array_equal(resumed.apply(values, batch), transform.apply(values, batch))
    _require(same, "a transform restored from its state gave another result")


def _batches(seed: int) -> list[Experiences]:
    return [
        sample_experiences((3, 1, 2, 5), seats=(0, 1, 0, 1), games=("a", "a", "b", "b"), seed=seed),
        sample_experiences((2, 2, 2), rewards=(1.0, 1.0, 1.0), seed=seed),
        sample_experiences((1,), seed=seed),
        sample_experiences((4, 3), tokens=True, seed=seed),
    ]


def _values(phase: TransformPhase, batch: Experiences) -> np.ndarray:
    column = batch.steps["reward"] if phase == "step" else batch.sequences["shaped_reward"]
    return column.astype(np.float64)


def _require(holds: bool, broken: str) -> None:
    if not holds:
        raise ConformanceError(broken)
