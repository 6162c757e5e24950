"""The terminal dashboard: a client of the daemon's messages and a reader of run directories, nothing else."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ludus.tui.app import Dashboard
    from ludus.tui.pane import Pane
    from ludus.tui.panes import PANES
    from ludus.tui.panes.spec import PaneSpec

__all__ = ["PANES", "Dashboard", "Pane", "PaneSpec"]

_HOMES = {"Dashboard": "app", "PANES": "panes", "Pane": "pane", "PaneSpec": "panes.spec"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
