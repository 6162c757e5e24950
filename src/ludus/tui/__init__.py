"""The terminal dashboard: a client of the daemon's messages and a reader of run directories, nothing else."""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.tui.app import Dashboard
    from ludus.tui.pane import Pane
    from ludus.tui.panes import PANES
    from ludus.tui.panes.spec import PaneSpec

__all__ = ["PANES", "Dashboard", "Pane", "PaneSpec"]

__getattr__ = import_later(__name__)
