"""Any experiences survive the way through Arrow, whole or in slices, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ludus.records import Experiences
from ludus.storage.arrow import experiences_from_bytes, experiences_from_table, experiences_to_table, to_bytes

NUMBERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def experiences(draw: st.DrawFn) -> Experiences:
    """Ragged sequences with columns of any dtype and shape, as part of longer arrays."""
    lengths = draw(st.lists(st.integers(0, 5), max_size=6))
    before, behind = draw(st.integers(0, 9)), draw(st.integers(0, 3))
    offsets = before + np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n, total = len(lengths), int(offsets[-1]) + behind
    sequences: dict[str, Any] = {"episode": np.array(draw(st.lists(texts, min_size=n, max_size=n)), object)}
    steps: dict[str, Any] = {}
    for number in range(draw(st.integers(0, 3))):
        sequences[f"s{number}"] = draw(hnp.arrays(draw(st.sampled_from(NUMBERS)), n))
        shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
        steps[f"t{number}"] = draw(hnp.arrays(draw(st.sampled_from(NUMBERS)), (total, *shape)))
    return Experiences(sequences=sequences, offsets=offsets, steps=steps)


def signature(batch: Experiences, rows: list[int]) -> list[Any]:
    """Everything about these sequences; without step columns nobody can know how long they were."""
    cuts = [(int(batch.offsets[row]), int(batch.offsets[row + 1])) for row in rows]
    return [
        {
            name: (column.dtype.kind, column[rows].tobytes() if column.dtype != object else column[rows].tolist())
            for name, column in batch.sequences.items()
        },
        {
            name: [(column.dtype.str, column[a:b].shape, column[a:b].tobytes()) for a, b in cuts]
            for name, column in batch.steps.items()
        },
    ]


@settings(max_examples=150, deadline=None)
@given(experiences(), st.data())
def test_any_slice_of_any_experiences_comes_back(original: Experiences, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(original)))
    count = data.draw(st.integers(0, len(original) - start))
    part = experiences_to_table(original).slice(start, count)
    expected = signature(original, list(range(start, start + count)))
    for back in (experiences_from_table(part), experiences_from_bytes(to_bytes(part))):
        assert len(back) == count
        assert back.offsets[0] == 0
        assert signature(back, list(range(count))) == expected
