"""The log: the newest 1,000 lines of what the run wrote, warned of and failed with, through a filter."""

from __future__ import annotations

import re
import time
from functools import lru_cache

from rich.text import Text

from ludus.monitor.run_view import Entry, RunView
from ludus.tui.drawing import PaneSpec, wrap

CLOCK = re.compile(r"(\d\d:\d\d:\d\d) (.*)")
"""Lines that say themselves when they were written."""
SIGNS = {"log": " ", "event": "·", "match": "=", "warning": "!", "error": "✗"}
STYLES = {"log": "", "event": "dim", "match": "dim", "warning": "bold yellow", "error": "bold red"}


def matches(entry: Entry, wanted: str) -> bool:
    """Whether a line has all the words of a filter, in its text or as its kind; `-word` wants it not to."""
    text = f"{entry.kind} {entry.text}".lower()
    return all(
        word[1:] not in text if word.startswith("-") and len(word) > 1 else word in text
        for word in wanted.lower().split()
    )


def draw(view: RunView, width: int, wanted: str = "") -> list[Text]:
    """The lines that a filter lets through, oldest first."""
    shown = [entry for entry in view.log if matches(entry, wanted)] if wanted else view.log
    lines = [line for entry in shown for line in _lines(entry, width)]
    if lines:
        return lines
    return [Text("no line fits the filter" if view.log else "nothing has been logged yet", "dim")]


@lru_cache(maxsize=4096)
def _lines(entry: Entry, width: int) -> tuple[Text, ...]:
    clock, text = time.strftime("%H:%M:%S", time.localtime(entry.at_s)), entry.text
    if entry.kind == "log" and (found := CLOCK.match(text)):
        clock, text = found[1], found[2]
    pieces = wrap(f"{clock} {SIGNS[entry.kind]} {text}", width, 11)
    return tuple(Text(piece, STYLES[entry.kind]) for piece in pieces)


LOG = PaneSpec(
    title="Log",
    topics=frozenset({"log"}),
    draw=draw,
    help=(
        "The last 1,000 lines: the log, · events, = matches, ! warnings, ✗ errors. / filters: lines that have all the "
        "words, -word those that do not have it; a kind such as `warning` is a word, too. Escape ends the filter. "
        "It follows the newest line until you scroll up; End follows again."
    ),
)
