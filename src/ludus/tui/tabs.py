"""The lines of keys: the tabs at the top, and at the bottom what else can be done."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text

from ludus.tui.panes import PANES

ACTIONS = (
    ("?", "Help", "app.help"),
    ("q", "Quit", "app.leave"),
    ("^p", "Commands", "app.command_palette"),
    ("p", "Pause", "app.pause"),
    ("c", "Checkpoint", "app.order('checkpoint')"),
    ("e", "Export", "app.export"),
    ("x", "Stop", "app.stop_run"),
    ("/", "Filter", "app.filter"),
    ("t", "Train now", "app.order('start_training_immediately')"),
)
"""Keys with what they do, the most needed first."""


def key_line(width: int) -> Text:
    """As many keys as there is room for; a click does the same as the key."""
    text = Text()
    for key, words, action in ACTIONS:
        if text.cell_len + len(key) + len(words) + 2 <= width:
            text.append(" ").append(key, Style(bold=True, underline=True, meta={"@click": action}))
            text.append(f" {words} ", Style(meta={"@click": action}))
    return text


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
