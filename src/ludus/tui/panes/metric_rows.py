"""Metrics as rows: name, value, curve. Whatever a run emits appears, also what nobody here has heard of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.text import Text

from ludus.monitor.run_view import RunView
from ludus.reports.number_text import short
from ludus.tui.drawing import fit, sparkline

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
