"""Curves in a few hundred points: whatever they are, ends and spikes are kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ludus.reports.buckets import bucket

VALUES = st.lists(
    st.tuples(st.floats(0, 1e9), st.floats(-1e6, 1e6) | st.sampled_from([float("nan"), float("inf")])), max_size=400
)


@given(VALUES, st.integers(2, 50))
def test_first_last_least_and_greatest_are_kept(points: list[tuple[float, float]], count: int) -> None:
    points.sort(key=lambda point: point[0])
    x, y = np.array([each[0] for each in points]), np.array([each[1] for each in points])
    made = bucket(x, y, count)
    finite = np.isfinite(y)
    x, y = x[finite], y[finite]
    assert made.points == len(x)
    assert len(made.x) <= count + 2
    if not len(x):
        return
    assert (made.x[0], made.mean[0]) == (x[0], y[0])
    assert (made.x[-1], made.mean[-1]) == (x[-1], y[-1])
    assert made.low.min() == y.min()
    assert made.high.max() == y.max()
    assert (np.diff(made.x) >= 0).all()
    assert ((made.low <= made.mean) & (made.mean <= made.high)).all()


def test_a_zoom_is_cut_before_it_is_bucketed() -> None:
    x = np.arange(1_000_000, dtype=np.float64)
    y = np.zeros_like(x)
    y[500_000] = 7.0
    whole, near = bucket(x, y, 100), bucket(x, y, 100, 499_990, 500_010)
    assert whole.high.max() == 7.0
    assert near.is_exact
    assert near.points <= 25
    assert near.mean.max() == 7.0


def test_few_points_stay_as_they_are() -> None:
    made = bucket(np.array([1.0, 2.0]), np.array([3.0, 4.0]), 100)
    assert made.is_exact
    assert made.mean.tolist() == [3.0, 4.0]
