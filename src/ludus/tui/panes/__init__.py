"""The panes of the dashboard, in the order of their number keys. To add one, write its module and name it here."""

from __future__ import annotations

from ludus.tui.drawing import PaneSpec
from ludus.tui.panes.collection import COLLECTION
from ludus.tui.panes.episode import EPISODE
from ludus.tui.panes.league import LEAGUE
from ludus.tui.panes.log import LOG
from ludus.tui.panes.rooms import ROOMS
from ludus.tui.panes.training import SCHEDULE, TRAINING

__all__ = ["PANES", "PaneSpec"]

PANES: tuple[PaneSpec, ...] = (ROOMS, SCHEDULE, TRAINING, LEAGUE, COLLECTION, EPISODE, LOG)
"""The log is the last of them."""
