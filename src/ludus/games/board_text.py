"""Boards as people read them: rows and columns with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

LEAST = 2
"""Rows and columns that make a board."""
COUNTED = 3
"""Cells in a line that count up or down: the game numbers its board itself."""
NOTHING = frozenset(" .-_+*·")
"""Signs for an empty cell. Lines without one, or with digits, are a board only when they are the whole text."""

Cells = tuple[str, ...]


def label_board(text: str) -> str:
    """Grids in a text get numbers, from 0, at their left and below; other text stays as it is.

    A cell is one character; cells of a row stand together, or have one space or bar between them.
    """
    lines = text.strip("\n").split("\n")
    blocks = [(width, list(block)) for width, block in groupby(lines, lambda line: len(_cells(line)))]
    is_alone = len(blocks) == 1
    labelled = [_label(block, is_alone=is_alone) if width >= LEAST else None for width, block in blocks]
    if not any(labelled):
        return text
    return "\n".join(new or "\n".join(block) for new, (_, block) in zip(labelled, blocks, strict=True))


def _cells(line: str) -> Cells:
    """The cells of a row; nothing where the line is none."""
    row = line.strip()
    if "|" in row:
        cells = tuple(cell.strip() or " " for cell in row.strip("|").split("|"))
    elif " " in row:
        cells = tuple(row.split(" "))
    else:
        cells = tuple(row)
    return cells if all(len(cell) == 1 and cell.isprintable() for cell in cells) else ()


def _label(block: Sequence[str], *, is_alone: bool) -> str | None:
    """Lines of one grid with numbers; None where they are no grid, or have numbers of their own."""
    rows = [_cells(line) for line in block]
    if len(rows) < LEAST or len(set(map(len, block))) > 1 or not (is_alone or _looks_like_a_board(rows)):
        return None
    columns = list(zip(*rows, strict=True))
    if any(map(_counts, (rows[0], rows[-1], columns[0], columns[-1]))):
        return None
    left, cell = len(str(len(rows) - 1)), len(str(len(columns) - 1))
    lines = [f"{number:>{left}}  " + " ".join(f"{each:>{cell}}" for each in row) for number, row in enumerate(rows)]
    below = " ".join(f"{number:>{cell}}" for number in range(len(columns)))
    return "\n".join([*lines, f"{'':{left}}  {below}"])


def _looks_like_a_board(rows: Sequence[Cells]) -> bool:
    """Whether there are empty cells, and no counts of pieces."""
    signs = {cell for row in rows for cell in row}
    return not signs.isdisjoint(NOTHING) and not any(map(str.isdigit, signs))


def _counts(cells: Cells) -> bool:
    """Whether cells are numbers or letters that count up or down."""
    steps = {ord(after) - ord(before) for before, after in pairwise(cells)}
    return len(cells) >= COUNTED and steps in ({1}, {-1}) and all(map(str.isalnum, cells))
