"""The screens as pictures, at the three sizes that everything was laid out for.

After a change that was meant: pytest tests/tui/test_snapshots.py --snapshot-update, and look at the pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tui.conftest import recorded, repaint, through

SIZES = ((80, 24), (120, 40), (200, 60))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_dashboard_of_a_recorded_run_looks_as_it_did(
    snap_compare: Callable[..., bool], size: tuple[int, int]
) -> None:
    assert snap_compare(recorded(), terminal_size=size, run_before=through)


def test_the_league_in_a_small_terminal_looks_as_it_did(snap_compare: Callable[..., bool]) -> None:
    async def league(pilot: Any) -> None:
        await through(pilot)
        await pilot.press("4")
        await repaint(pilot)

    assert snap_compare(recorded(), terminal_size=(80, 24), run_before=league)
