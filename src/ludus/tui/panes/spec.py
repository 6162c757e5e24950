"""What a pane is: a name, what it shows in words, which news concern it, and a function from the view to lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text

from ludus.monitor.run_view import RunView, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneSpec:
    """A pane. `draw` is pure: the same view and width give the same lines."""

    name: str
    title: str
    topics: frozenset[Topic]
    draw: Callable[[RunView, int], list[Text]]
    help: str
    """What its signs mean, for the help screen."""

    def lines(self, view: RunView, width: int) -> list[Text]:
        """What it shows; cut off where the pane is narrower than it should be, or a number out of this world."""
        drawn = self.draw(view, width)
        for line in drawn:
            line.truncate(width)
        return drawn
