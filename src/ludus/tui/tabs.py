"""The line of tabs: the number keys and what they show."""

from __future__ import annotations

from rich.text import Text

from ludus.tui.panes import PANES


def tab_line(chosen: str, width: int) -> Text:
    """All panes with their keys; the one that is shown is reversed. Names are shortened where there is no room."""
    for most in (30, 12, 8, 4, 0):
        parts = [(f" {number} {pane.title[:most]}".rstrip() + " ", pane.name) for number, pane in enumerate(PANES, 1)]
        if sum(len(words) for words, _ in parts) <= width or most == 0:
            break
    text = Text()
    for words, name in parts:
        text.append(words, "bold reverse" if name == chosen else "")
    return text
