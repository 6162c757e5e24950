"""Curves of several runs, brought to the same steps."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from ludus.reports.curves import align, draw_curves, read_bands, read_curves


def test_curves_are_compared_where_all_of_them_are_known() -> None:
    steps, values = align([[(0, 0.0), (10, 1.0), (20, 2.0), (30, 9.0)], [(5, 10.0), (25, 30.0)]])
    np.testing.assert_allclose(steps, [5, 10, 20, 25])
    np.testing.assert_allclose(values, [[0.5, 1.0, 2.0, 5.5], [10.0, 15.0, 25.0, 30.0]])


def test_curves_without_a_common_stretch_have_one_point() -> None:
    steps, values = align([[(0, 1.0)], [(5, 3.0)]])
    assert steps.tolist() == [5]
    assert values.tolist() == [[1.0], [3.0]]


def test_intervals_are_those_of_scipy_and_are_drawn(tmp_path: Path) -> None:
    lines = [
        {
            "step": 0,
            "evaluate/a/score": 0.25,
            "evaluate/a/games": 40.0,
            "evaluate/b/score": 0.5,
            "evaluate/d/success": 0.5,
        },
        {
            "step": 9,
            "evaluate/a/score": 1.0,
            "evaluate/a/games": 40.0,
            "evaluate/sums/success": 0.25,
            "evaluate/sums/sampled/success": 1.0,
            "evaluate/sums/tasks": 40.0,
            "evaluate/return": 2.0,
            "evaluate/return_ci95": 0.5,
        },
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    curves = read_curves(tmp_path / "metrics.jsonl")
    bands = read_bands(tmp_path / "metrics.jsonl", curves)
    successes = {"evaluate/sums/success", "evaluate/sums/sampled/success"}
    # Nothing says how many games b was of, and how many tasks d.
    assert set(bands) == {"evaluate/a/score", "evaluate/return", *successes}
    for (step, low, high), wins in zip(bands["evaluate/a/score"], (10, 40), strict=True):
        wilson = binomtest(wins, 40).proportion_ci(0.95, method="wilson")
        assert (low, high) == pytest.approx((wilson.low, wilson.high), abs=1e-6)
        assert step in (0.0, 9.0)
    for name, found in zip(sorted(successes), bands["evaluate/a/score"][::-1], strict=True):
        assert bands[name] == [(9.0, *found[1:])]
    assert bands["evaluate/return"] == [(9.0, 1.5, 2.5)]
    drawn = [draw_curves(curves, "x", bands=chosen, form="svg").count(b"PolyCollection") for chosen in (bands, {})]
    assert drawn[0] > drawn[1] == 0
