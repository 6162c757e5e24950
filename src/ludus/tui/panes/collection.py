"""What play looks like: legal moves, lengths, rewards by seat, and what the experience operators refused.

A run that trains on a loader's data plays nothing to train on: this is where its loader is.
"""

from __future__ import annotations

import re

from rich.text import Text

from ludus.monitor.run_view import RunView
from ludus.reports.number_text import clean, percent, short
from ludus.tui.drawing import FULL, REST, PaneSpec, heading, row, rows, under
from ludus.tui.panes.loader import draw_loader

SEAT = re.compile(r"explore/(.*?)seat_(\d+)/(reward|wins)$")
FIRST = (
    "explore/reward",
    "explore/length",
    "explore/draws",
    "explore/failed_episodes",
    "experience/refused",
    "experience/kept",
)
SPEECH = ("explore/format_success", "explore/invalid_moves", "explore/reply_chars")


def draw(view: RunView, width: int) -> list[Text]:
    """Format success first, then games, seats, and all the rest; of a run with a loader, the loader's stages."""
    if view.status.loader is not None:
        return draw_loader(view.status.loader, width)
    names = [name for name in under(view, "explore/") if not _is_said_twice(view, name)] + under(view, "experience/")
    if not names:
        return [Text("nothing has been played yet", "dim")]
    lines = _format(view, width) + rows(view, FIRST, width)
    seats = [name for name in names if SEAT.match(name) and name.endswith("/reward")]
    if seats:
        lines.append(heading("reward by seat", width))
        lines += [_seat(view, name, width) for name in seats]
    known = {*SPEECH, *FIRST, *seats, *(name.replace("/reward", "/wins") for name in seats)}
    others = [name for name in names if name not in known]
    lines += [heading("more", width)] if others else []
    return lines + [row(view, name, width, name.removeprefix("explore/")) for name in others]


def _is_said_twice(view: RunView, name: str) -> bool:
    """A run with a single game has its metrics with and without the game's name."""
    room, _, rest = name.partition("/")
    game, _, metric = rest.partition("/")
    return ":" in game and f"{room}/{metric}" in view.values


def _format(view: RunView, width: int) -> list[Text]:
    """Of games of words: how many replies had the form that was asked for, and how many moves were allowed."""
    if not any(name in view.values for name in SPEECH):
        return [Text("format success  100% (only legal moves exist)", "dim")]
    return rows(view, SPEECH, width)


def _seat(view: RunView, name: str, width: int) -> Text:
    """Reward as a bar to the left or the right of zero, and the share of wins."""
    found = SEAT.match(name)
    label = clean(f"{found[1]}seat {found[2]}" if found else name)
    reward, wins = view.values[name], view.values.get(name.replace("/reward", "/wins"))
    label_width = min(18, max(len(label) + 1, 8))
    words = f"{short(reward):>7}" + ("" if wins is None else f"  won {percent(wins):>4}")
    half = min(max((width - label_width - len(words) - 3) // 2, 0), 12)
    filled = int(min(abs(reward), 1.0) * half + 0.5)
    rest = half - filled
    left = REST * rest + FULL * filled if reward < 0 else REST * half
    right = FULL * filled + REST * rest if reward > 0 else REST * half
    style = "yellow" if reward < 0 else "green"
    body = (Text(left, style), "│", Text(right, style)) if half else ("",)
    return Text.assemble(f"{label[: label_width - 1]:<{label_width}}", *body, words)


COLLECTION = PaneSpec(
    title="Collection",
    topics=frozenset({"metrics", "status"}),
    draw=draw,
    help=(
        "What the newest episodes look like. format success: share of replies that had the form that was asked for; "
        "invalid moves: share of moves that the rules did not allow. Rewards by seat are bars to the left (lost) or "
        "the right (won) of zero, full at 1, with the share of wins. Of a run with a loader: its stages in the order "
        "of the data, each with how many threads are busy with it, its queue, and what it has done; and what was "
        "refused."
    ),
)
