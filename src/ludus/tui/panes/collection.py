"""What play looks like: legal moves, lengths, rewards by seat, and what the experience operators refused."""

from __future__ import annotations

import re

from rich.text import Text

from ludus.tui.drawing import FULL, REST, clean, percent, short, sparkline
from ludus.tui.panes.metric_rows import VALUE, heading, row, rows, under
from ludus.tui.panes.spec import PaneSpec
from ludus.tui.run_view import RunView

SEAT = re.compile(r"explore/(.*?)seat_(\d+)/(reward|wins)$")
FIRST = ("explore/length", "explore/draws", "explore/failed_episodes", "experience/refused", "experience/kept")
INVALID = "explore/invalid_moves"


def draw(view: RunView, width: int) -> list[Text]:
    """Format success first, then games, seats, and all the rest."""
    names = [name for name in under(view, "explore/") if not _is_said_twice(view, name)] + under(view, "experience/")
    if not names:
        return [Text("nothing has been played yet", "dim")]
    lines = _format(view, width) + rows(view, FIRST, width)
    seats = [name for name in names if SEAT.match(name) and name.endswith("/reward")]
    if seats:
        lines.append(heading("reward by seat", width))
        lines += [_seat(view, name, width) for name in seats]
    known = {INVALID, *FIRST, *seats, *(name.replace("/reward", "/wins") for name in seats)}
    others = [name for name in names if name not in known]
    lines += [heading("more", width)] if others else []
    return lines + [row(view, name, width, name.removeprefix("explore/")) for name in others]


def _is_said_twice(view: RunView, name: str) -> bool:
    """A run with a single game has its metrics with and without the game's name."""
    room, _, rest = name.partition("/")
    game, _, metric = rest.partition("/")
    return ":" in game and f"{room}/{metric}" in view.values


def _format(view: RunView, width: int) -> list[Text]:
    """Of games of words: how many moves could be read and were allowed."""
    if INVALID not in view.values:
        return [Text("format success  100% (only legal moves exist)"[:width], "dim")]
    valid = 1.0 - view.values[INVALID]
    curve = [1.0 - value for value in view.curve(INVALID)]
    label_width = min(max(width - VALUE - 2, 8), 24 if width < 70 else 32)
    line = Text(f"{'format success':<{label_width}}{percent(valid):>{VALUE}}  ")
    line.append_text(sparkline(curve, width - label_width - VALUE - 2))
    return [line, *rows(view, (INVALID,), width)]


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
    name="collection",
    title="Collection",
    topics=frozenset({"metrics"}),
    draw=draw,
    help=(
        "What the newest episodes look like. format success: share of tried moves that the rules allowed. Rewards by "
        "seat are bars to the left (lost) or the right (won) of zero, full at 1, with the share of wins."
    ),
)
