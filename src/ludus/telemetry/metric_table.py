"""Metrics by name: what a name means, and the page that lists them all.

Invariant: a name that a run emits is that of exactly one row, or of a named row and one that stands for many; then the
named one counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

from ludus.config import LOSS_OPTIONS
from ludus.telemetry.metric_rows import SECTIONS

_ANY = r"[^/]+"
_PLACEHOLDERS = {
    "game": r".+",
    "k": r"\d+",
    "metric": r".+",
    "room": r"[a-z_]+",
    "seat": r"\d+",
    "taskset": r".+",
    "term": rf"(?:{'|'.join(LOSS_OPTIONS)})(?:_\d+)?",
}
"""What the name in angle brackets may be; others are anything without a slash."""
_PART = re.compile(r"<(\w+)>|\[([^]]*)\]|([^<\[]+)")
_INTRODUCTION = """\
# Metrics

`metrics.jsonl` has one JSON object per report: `time`, `step` and numbers by name. TensorBoard and Weights & Biases get
the same numbers under the same names ([Trackers](trackers.md)). `step` counts environment steps, and in populations
generations (`psro/...`).

`<player>` stands for a name, and what is in square brackets may be missing. `share` is between 0 and 1; counts are
totals since the run began unless they say otherwise. On the command line: `ludus metrics train/approx_kl`.

This page is made from `src/ludus/telemetry/metric_rows.py` by `make pages`.
"""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One row: a metric, or all metrics of one form."""

    name: str
    unit: str
    meaning: str

    @property
    def is_open(self) -> bool:
        """Whether it stands for names that are not known here."""
        return "<" in self.name

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What its names look like."""
        return re.compile(_regex(self.name))

    def matches(self, name: str) -> bool:
        """Whether this row explains a name."""
        return self.pattern.fullmatch(name) is not None


METRICS: tuple[Metric, ...] = tuple(
    Metric(name=name, unit=unit, meaning=meaning) for rows in SECTIONS.values() for name, unit, meaning in rows
)


@cache
def find_metric(name: str) -> Metric | None:
    """The row that explains a name; None when there is none. A learner's metric is explained by its own row."""
    learner = re.fullmatch(r"learner/[^/]+/(.+)", name)
    if learner is not None:
        return find_metric(learner[1])
    found = [metric for metric in METRICS if metric.matches(name)]
    return min(found, key=lambda metric: metric.name.count("<"), default=None)


def search_metrics(words: str) -> list[Metric]:
    """Rows for what somebody typed: the row of this name, else those that have it in name or meaning."""
    exact = find_metric(words)
    if exact is not None:
        return [exact]
    sought = words.lower()
    return [metric for metric in METRICS if sought in metric.name or sought in metric.meaning.lower()]


def metrics_page() -> str:
    """docs/metrics.md."""
    parts = [_INTRODUCTION]
    for title, rows in SECTIONS.items():
        lines = "\n".join(f"| `{name}` | {unit} | {meaning} |" for name, unit, meaning in rows)
        parts.append(f"## {title}\n\n| name | unit | meaning |\n|---|---|---|\n{lines}\n")
    return "\n".join(parts)


def _regex(name: str) -> str:
    """A row's name as a regular expression."""
    out = ""
    for placeholder, optional, plain in _PART.findall(name):
        if placeholder:
            out += _PLACEHOLDERS.get(placeholder, _ANY)
        elif optional:
            out += f"(?:{_regex(optional)})?"
        else:
            out += re.escape(plain)
    return out


if __name__ == "__main__":
    print(metrics_page(), end="")
