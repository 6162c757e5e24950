"""Who began with whose weights, as lines of text: an indented tree in which only branches are indented.

Whoever went on from the one before stands behind it on the same line, and those from whom nobody went on share one, so
that sixty members take a screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from ludus.league.matchmaking.population import Recruit
from ludus.records import PolicyRef
from ludus.reports.population_standing import PopulationStanding

FROZEN, PASSING = "●", "○"
HEADLINE = f"Lineage: {FROZEN} belongs for good, {PASSING} in passing, g2 generation 2, → went on as"
DEEPEST = 8
"""Levels up to which branches are indented further."""


def lineage_lines(standing: PopulationStanding, width: int = 80) -> list[str]:
    """The tree of every agent, each below its name."""
    tree = _Tree(standing.lineage)
    lines: list[str] = []
    for agent in standing.agents:
        mine = [root for root in tree.roots if root.agent == agent]
        if mine:
            lines.append(agent)
            lines += _wrapped(", ".join(tree.line(root) for root in mine if tree.is_short(root)), "  ", width)
            for root in (root for root in mine if not tree.is_short(root)):
                lines += tree.lines(root, "  ", width)
    return lines


class _Tree:
    def __init__(self, lineage: Sequence[Recruit]) -> None:
        known = {recruit.ref for recruit in lineage}
        self._children: dict[PolicyRef, list[Recruit]] = {ref: [] for ref in known}
        self.roots: list[Recruit] = []
        """Policies that began with nobody's weights."""
        for recruit in lineage:
            if recruit.parent in known:
                self._children[recruit.parent].append(recruit)
            else:
                self.roots.append(recruit)

    def is_short(self, root: Recruit) -> bool:
        """Whether one member at most came of it: the line of an exploiter, or of an answer that began anew."""
        line = self._descent(root)
        return sum(each.frozen for each in line) <= 1 and all(len(self._children[each.ref]) < 2 for each in line)

    def line(self, root: Recruit) -> str:
        """All that came of it in a straight line."""
        return " → ".join(self._marks(self._descent(root)))

    def lines(self, root: Recruit, indent: str, width: int, level: int = 1) -> Iterator[str]:
        """A line of descent, wrapped, and below it the branches that leave it."""
        begins = "" if root.parent is None or level == 1 else f"└ from @{root.parent.version}: "
        yield from _wrapped(begins + self.line(root), indent, width)
        for recruit in self._descent(root):
            for branch in self._children[recruit.ref][1:]:
                deeper = indent + "  " if level < DEEPEST else indent
                yield from self.lines(branch, deeper, width, level + 1)

    def _mark(self, recruit: Recruit, agent: str = "") -> str:
        """`●@3 g7`."""
        name = str(recruit.ref) if agent and agent != recruit.agent else f"@{recruit.ref.version}"
        return f"{FROZEN if recruit.frozen else PASSING}{name} g{recruit.generation}"

    def _descent(self, root: Recruit) -> list[Recruit]:
        line = [root]
        while children := self._children[line[-1].ref]:
            line.append(children[0])
        return line

    def _marks(self, line: Sequence[Recruit]) -> Iterator[str]:
        """Members one by one; what a learner was in passing between them is counted."""
        groups = groupby(line, lambda recruit: recruit.frozen or len(self._children[recruit.ref]) > 1)
        for is_shown, group in groups:
            several = list(group)
            if is_shown:
                yield from (self._mark(recruit, line[0].agent) for recruit in several)
            else:
                count = f"×{len(several)}" if len(several) > 1 else ""
                until = f" until g{several[-1].generation}" if several[-1] is line[-1] else ""
                yield f"{PASSING}{count}{until}"


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    bound = text.replace(" until ", "\N{NO-BREAK SPACE}until ").replace(" g", "\N{NO-BREAK SPACE}g")
    lines = wrap(
        bound,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
