"""The promises of a loader, as one public check.

from ludus.testing import check_loader
def test_mine(): check_loader(lambda: Mine(config=config, seed=0, path="rows.csv"))
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from ludus.records import Experiences
from ludus.testing.conformance import ConformanceError, call, require
from ludus.train.loaders import Loader

BATCHES = 3
NEEDED = ("action", "mask", "logp", "value", "reward")


def check_loader(make: Callable[[], Loader]) -> None:
    """Raise `ConformanceError` naming the promise that the loader breaks.

    Covered: batches with at least one row and the columns that a learner reads; a state that is JSON, and from which a
    new loader gives the same batches. Not covered: whether the rows are the ones you meant.
    """
    loader = make()
    try:
        for _ in range(BATCHES):
            _check(call("next", loader.next))
        try:
            state = json.loads(json.dumps(call("state", loader.state), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ConformanceError(f"state is not JSON: {error}") from error
        resumed = make()
        try:
            call("load_state", resumed.load_state, state)
            for _ in range(BATCHES):
                same = _equal(call("next", loader.next), call("next", resumed.next))
                require(same, "restored from its state, the loader gave another batch")
        finally:
            resumed.close()
    finally:
        loader.close()


def _check(batch: object) -> None:
    require(isinstance(batch, Experiences), f"next gives Experiences, got {type(batch).__name__}")
    if isinstance(batch, Experiences):
        require(len(batch) > 0, "a batch has at least one sequence")
        missing = [name for name in NEEDED if name not in batch.steps]
        require(not missing, f"the steps lack {', '.join(missing)}")


def _equal(one: Experiences, other: Experiences) -> bool:
    pairs = [(one.steps, other.steps), (one.sequences, other.sequences), ({"": one.offsets}, {"": other.offsets})]
    return all(
        mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        for mine, theirs in pairs
    )
