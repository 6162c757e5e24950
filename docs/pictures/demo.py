"""Makes demo.svg, the moving picture of the README, from a finished run of the demo:

    python docs/pictures/demo.py runs/connect_four

Left, the scores that the run measured; right, a game that its newest version won against mcts-25.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import dist
from pathlib import Path

from ludus.records import Episode
from ludus.reports.curves import read_curves
from ludus.storage.arrow import episodes_from_table
from ludus.storage.segment_reader import SegmentReader

TARGET = Path(__file__).with_name("demo.svg")
OPPONENTS = {"random": "#8a8f98", "mcts-25": "#2f6fde"}
DISCS = ("#e5533d", "#f2b632")
WIDTH, HEIGHT = 840, 340
CHART = (60.0, 50.0, 400.0, 230.0)
"""Left, top, width, height."""
BOARD = (520.0, 50.0, 40.0)
"""Left, top, size of a cell."""
ROUND_S, MOVE_S, MOVES = 14.0, 0.45, 23
COLUMNS, ROWS = 7, 6

Points = Sequence[tuple[float, float]]


def main() -> None:
    """Read the run, write the picture."""
    run = Path(sys.argv[1])
    curves = {name: read_curves(run / "metrics.jsonl", [f"evaluate/{name}/score"]) for name in OPPONENTS}
    points = {name: next(iter(found.values())) for name, found in curves.items()}
    lines = [*frame(), *chart(points), *board(find_game(run))]
    TARGET.write_text("\n".join([*lines, "</svg>", ""]))
    print(TARGET)


def find_game(run: Path) -> Episode:
    """Of the newest version's games that it won against mcts-25, one of about `MOVES` moves."""
    tables = [table for _, table in SegmentReader(run / "episodes").scan()]
    games = [game for table in tables for game in episodes_from_table(table) if not game.error]
    won = [game for game in games if opponent_of(game) == "mcts-25" and game.returns[learner_seat(game)] > 0]
    newest = max(game.task.seats[learner_seat(game)].policy.version for game in won)
    of_newest = [game for game in won if game.task.seats[learner_seat(game)].policy.version == newest]
    return min(of_newest, key=lambda game: (abs(game.length - MOVES), game.id))


def learner_seat(game: Episode) -> int:
    """Where main sits."""
    return next((seat for seat, who in enumerate(game.task.seats) if who.policy.name == "main"), 0)


def opponent_of(game: Episode) -> str:
    """Who sits opposite."""
    return game.task.seats[1 - learner_seat(game)].policy.name


def frame() -> Iterator[str]:
    """The paper; it is readable on white and on black."""
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="13" role="img" aria-label="The demo: scores rise while a policy learns Connect Four by self-play">'
    )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>'


def chart(curves: dict[str, Points]) -> Iterator[str]:
    """Scores over steps; each line draws itself."""
    left, top, width, height = CHART
    most = max(step for points in curves.values() for step, _ in points)
    yield f'<text x="{left}" y="30" font-weight="bold">score while it learns from nothing</text>'
    for share in (0.0, 0.5, 1.0):
        y = top + height * (1 - share)
        yield f'<line x1="{left}" y1="{y}" x2="{left + width}" y2="{y}" stroke="#dddddd"/>'
        yield f'<text x="{left - 8}" y="{y + 4}" text-anchor="end" fill="#555555">{share:.0%}</text>'
    yield (
        f'<text x="{left + width}" y="{top + height + 22}" text-anchor="end" fill="#555555">'
        f"{most / 1e6:.0f} million steps</text>"
    )
    for name, points in curves.items():
        placed = [(left + width * x / most, top + height * (1 - y)) for x, y in points]
        spots = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        length = sum(dist(*ends) for ends in pairwise(placed)) + 1
        last = points[-1][1]
        drawing = animate("stroke-dashoffset", f"{length:.0f};0;0", f"0;{6 / ROUND_S:.3f};1")
        yield (
            f'<polyline points="{spots}" fill="none" stroke="{OPPONENTS[name]}" stroke-width="2.5"'
            f' stroke-dasharray="{length:.0f}">{drawing}</polyline>'
        )
        y = max(y for _, y in placed[-5:]) + 20  # below the line, wherever it went of late
        yield (
            f'<text x="{left + width}" y="{y:.1f}" text-anchor="end" fill="{OPPONENTS[name]}">'
            f"against {name}: {last:.0%}</text>"
        )


def board(game: Episode) -> Iterator[str]:
    """The game, a disc at a time."""
    left, top, size = BOARD
    mine = learner_seat(game)
    yield (
        f'<text x="{left}" y="30" font-weight="bold"><tspan fill="{DISCS[0]}">● learnt</tspan>'
        f'<tspan dx="12" fill="{DISCS[1]}">● mcts-25</tspan></text>'
    )
    yield f'<rect x="{left}" y="{top}" width="{COLUMNS * size}" height="{ROWS * size}" rx="8" fill="#2b4c8c"/>'
    heights = [0] * COLUMNS
    for column in range(COLUMNS):
        for row in range(ROWS):
            yield circle(column, row, "#ffffff")
    start = ROUND_S - MOVE_S * (len(game.turns()) + 4)
    for number, (_, seat, column) in enumerate(game.turns()):
        shown = max(start, 0.0) + MOVE_S * number
        appear = animate("opacity", "0;1", f"0;{shown / ROUND_S:.4f}", mode="discrete")
        yield circle(column, heights[column], DISCS[seat != mine], appear)
        heights[column] += 1
    yield (
        f'<text x="{left}" y="{top + ROWS * size + 22}" fill="#555555">'
        f"the final policy wins in {game.length} moves</text>"
    )


def circle(column: int, row: int, colour: str, inside: str = "") -> str:
    """A disc or a hole; rows count from the bottom."""
    left, top, size = BOARD
    x, y = left + size * (column + 0.5), top + size * (ROWS - row - 0.5)
    return f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{size * 0.4:.0f}" fill="{colour}">{inside}</circle>'


def animate(what: str, values: str, times: str, *, mode: str = "linear") -> str:
    """One attribute over a round; what does not animate shows the end."""
    return (
        f'<animate attributeName="{what}" values="{values}" keyTimes="{times}" calcMode="{mode}"'
        f' dur="{ROUND_S:.0f}s" repeatCount="indefinite"/>'
    )


if __name__ == "__main__":
    main()
