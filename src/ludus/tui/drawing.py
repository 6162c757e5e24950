"""Numbers, bars, curves and metrics as text, and what a pane is. Invariant: all can be told apart without colour."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ludus.monitor.run_view import RunView, Topic
from ludus.reports.number_text import clean, short

FULL, REST = "█", "░"
SPARKS = "▁▂▃▄▅▆▇█"
HEAT = " ·░▒▓█"


def bar(share: float, width: int, style: str = "cyan") -> Text:
    """A bar filled to a share of its width, with the rest shown as such."""
    share = _clamped(share)
    filled = min(int(share * width + 0.5), width)
    if share >= 0.005 and not filled:
        filled = min(1, width)
    return Text.assemble((FULL * filled, style), (REST * (width - filled), "dim"))


def _clamped(share: float) -> float:
    return min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0


def spread(low: float, high: float, width: int) -> Text:
    """A bar that is sure up to a share, and uncertain up to another."""
    sure = int(_clamped(low) * width + 0.5)
    likely = max(int(_clamped(high) * width + 0.5), sure + (sure < width))
    return Text.assemble((FULL * sure, "cyan"), ("▒" * (likely - sure), "cyan"), (" " * (width - likely), ""))


def sparkline(values: Sequence[float], width: int) -> Text:
    """The newest points as a curve between their least and their greatest; a flat one is in the middle."""
    shown = values[-width:] if width > 0 else []
    if not shown:
        return Text("")
    low, high = min(shown), max(shown)
    if high <= low:
        return Text(SPARKS[3] * len(shown), "cyan")
    steps = [int((value - low) / (high - low) * (len(SPARKS) - 1) + 0.5) for value in shown]
    return Text("".join(SPARKS[step] for step in steps), "cyan")


def fit(text: str, width: int) -> str:
    """Text in exactly so many cells, shortened in the middle where it is too long."""
    text = clean(text)
    if cell_len(text) <= width:
        return set_cell_size(text, max(width, 0))
    if width < 4:
        return set_cell_size(text, max(width, 0))
    back = (width - 1) // 3
    front = set_cell_size(text, width - 1 - back).rstrip()
    tail = text[-back:] if back else ""
    return set_cell_size(f"{front}…{tail}", width)


def wrap(text: str, width: int, indent: int = 0) -> list[str]:
    """Pieces of at most `width` cells, broken at spaces where that costs little; later ones are indented."""
    pieces: list[str] = []
    room = width
    while cell_len(text) > room:
        cut = _cut(text, room)
        pieces.append(text[:cut].rstrip() if not pieces else " " * indent + text[:cut].rstrip())
        text = text[cut:].lstrip(" ")
        room = max(width - indent, 8)
    pieces.append(text if not pieces else " " * indent + text)
    return pieces


def _cut(text: str, room: int) -> int:
    """Where to break: the last space in the second half, or the last character that fits."""
    cut = room
    while cell_len(text[:cut]) > room:
        cut -= 1
    space = text.rfind(" ", max(cut // 2, 1), cut + 1)
    return space if space > 0 else max(cut, 1)


VALUE = 8
SHARES = (
    "score",
    "success",
    "wins",
    "draws",
    "invalid_moves",
    "clip_fraction",
    "format_success",
    "kept",
    "pass_rate",
    "progress",
)
"""Ends of names whose values are shares, 0 to 1."""
LABELS: Mapping[str, str] = {
    "train/approx_kl": "KL to behaviour",
    "train/entropy": "entropy",
    "train/loss": "loss",
    "train/staleness": "staleness (versions)",
    "train/updates_behind": "updates behind",
    "train/explained_variance": "explained variance",
    "train/grad_norm": "gradient norm",
    "train/learning_rate": "learning rate",
    "train/clip_fraction": "clipped",
    "explore/length": "length (plies)",
    "explore/format_success": "format success",
    "explore/invalid_moves": "invalid moves",
    "explore/reply_chars": "length (characters)",
    "explore/draws": "draws",
    "explore/failed_episodes": "failed episodes",
    "experience/refused": "refused sequences",
    "experience/kept": "kept by operators",
    "psro/nash_conv": "NashConv (exact)",
    "psro/nash_conv_bound": "NashConv (at least)",
    "psro/value": "value of seat 0",
    "psro/policies": "policies",
    "psro/matches": "matches",
    "psro/steps": "steps of all learners",
    "psro/histories": "histories of the game",
    "league/elo": "Elo, newest",
    "league/mu": "TrueSkill, newest",
    "loop/steps_per_s": "steps/s (loop)",
}


def value_of(name: str, value: float) -> str:
    """A metric's value as people read it."""
    return f"{value:.1%}" if name.rpartition("/")[2] in SHARES and -1 <= value <= 1 else short(value)


def row(view: RunView, name: str, width: int, label: str | None = None) -> Text:
    """One metric with its curve."""
    label = label or LABELS.get(name) or name
    label_width = min(max(width - VALUE - 2, 8), 24 if width < 70 else 32)
    curve = sparkline(view.curve(name), width - label_width - VALUE - 2)
    return Text.assemble(fit(label, label_width), f"{value_of(name, view.values[name]):>{VALUE}}", "  ", curve)


def rows(view: RunView, names: Iterable[str], width: int) -> list[Text]:
    """Those metrics of a list that there are."""
    return [row(view, name, width) for name in names if name in view.values]


def heading(words: str, width: int) -> Text:
    """A line between two groups."""
    return Text(f"── {words} ".ljust(width, "─")[:width], "dim")


def under(view: RunView, prefix: str) -> list[str]:
    """All metrics of a room, by name."""
    return sorted(name for name in view.values if name.startswith(prefix))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneSpec:
    """A pane. `draw` is pure: the same view and width give the same lines."""

    title: str
    topics: frozenset[Topic]
    draw: Callable[[RunView, int], list[Text]]
    help: str
    """What its signs mean, for the help screen."""

    @property
    def name(self) -> str:
        """What it is called in the layout and by its key."""
        return self.title.lower()

    def lines(self, view: RunView, width: int) -> list[Text]:
        """What it shows; cut off where the pane is narrower than it should be, or a number out of this world."""
        drawn = self.draw(view, width)
        for line in drawn:
            line.truncate(width)
        return drawn
