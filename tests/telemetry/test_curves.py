"""Curves of several runs, brought to the same steps."""

import numpy as np

from ludus.reports.curves import align


def test_curves_are_compared_where_all_of_them_are_known() -> None:
    steps, values = align([[(0, 0.0), (10, 1.0), (20, 2.0), (30, 9.0)], [(5, 10.0), (25, 30.0)]])
    np.testing.assert_allclose(steps, [5, 10, 20, 25])
    np.testing.assert_allclose(values, [[0.5, 1.0, 2.0, 5.5], [10.0, 15.0, 25.0, 30.0]])


def test_curves_without_a_common_stretch_have_one_point() -> None:
    steps, values = align([[(0, 1.0)], [(5, 3.0)]])
    assert steps.tolist() == [5]
    assert values.tolist() == [[1.0], [3.0]]
