"""What a pane is: a name, what it shows in words, which news concern it, and a function from the view to lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text

from ludus.tui.run_view import RunView, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneSpec:
    """A pane. `draw` is pure: the same view and width give the same lines, none wider than `width`."""

    name: str
    title: str
    topics: frozenset[Topic]
    draw: Callable[[RunView, int], list[Text]]
    help: str
    """What its signs mean, for the help screen."""
