"""The terminal dashboard: a client of the daemon's messages and a reader of run directories, nothing else."""

from ludus.tui.app import Dashboard
from ludus.tui.drawing import PaneSpec
from ludus.tui.pane import Pane
from ludus.tui.panes import PANES

__all__ = ["PANES", "Dashboard", "Pane", "PaneSpec"]
