"""Rows in groups, as operators see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ludus.records import Experiences
from ludus.testing.experiences import sample_experiences

MakeRows = Callable[..., Experiences]


@pytest.fixture
def make_rows() -> MakeRows:
    def make(
        rewards: Sequence[float], groups: Sequence[str], *, lengths: Sequence[int] | None = None, tokens: bool = True
    ) -> Experiences:
        rows = sample_experiences(lengths or [4] * len(rewards), rewards=rewards, tokens=tokens)
        return rows.replace(sequences={"group": np.array(list(groups), object)})

    return make
