"""Panes fill the screen and never overlap, at any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.tui.board import FIXED_HEIGHTS, arrange, mode_of
from ludus.tui.panes import PANES


@given(st.integers(40, 400), st.integers(10, 150), st.booleans())
def test_panes_fill_the_area_without_overlap(width: int, height: int, is_zoomed: bool) -> None:
    placed = arrange(mode_of(width, height), width, height - 3, "log", is_zoomed=is_zoomed)
    regions = list(placed.values())
    assert sum(region.area for region in regions) == width * (height - 3)
    assert all(not one.overlaps(other) for one in regions for other in regions if one is not other)
    assert all(region.height >= 6 for region in regions)


@pytest.mark.parametrize(
    ("size", "mode", "shown"),
    [((20, 5), "too small", 0), ((80, 24), "tabs", 1), ((120, 40), "grid", 6), ((200, 60), "wide", 7)],
)
def test_larger_terminals_show_more(size: tuple[int, int], mode: str, shown: int) -> None:
    assert mode_of(*size) == mode
    placed = arrange(mode_of(*size), size[0], size[1] - 3, "rooms", is_zoomed=False)
    assert len(placed) == shown
    assert placed.keys() | FIXED_HEIGHTS.keys() <= {pane.name for pane in PANES}
