"""Boards as people read them: rows and columns with their numbers."""

from __future__ import annotations

LEAST = 2
"""Rows and columns that make a board."""


def label_board(text: str) -> str:
    """A grid of one character a cell gets numbers, from 0, at its left and below; other text stays as it is."""
    rows = text.strip("\n").split("\n")
    width = len(rows[0])
    is_grid = all(len(row) == width and row.isprintable() and " " not in row for row in rows)
    if not is_grid or width < LEAST or len(rows) < LEAST:
        return text
    left, cell = len(str(len(rows) - 1)), len(str(width - 1))
    lines = [f"{number:>{left}}  " + " ".join(f"{each:>{cell}}" for each in row) for number, row in enumerate(rows)]
    below = " ".join(f"{number:>{cell}}" for number in range(width))
    return "\n".join([*lines, f"{'':{left}}  {below}"])
