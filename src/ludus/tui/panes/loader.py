"""The trainer's loader, drawn where other runs show what was played: its stages, their queues, what was refused."""

from __future__ import annotations

from rich.text import Text

from ludus.daemon.messages import LoaderNews
from ludus.monitor.loader_table import StageRow, refused_text, stage_rows
from ludus.reports.number_text import percent
from ludus.tui.drawing import bar, fit, wrap

BAR, LOAD = 6, 5
MOST_NAME, MOST_QUEUE = 15, 14
COUNTS = 40
"""Columns that counts need beside the rest; with fewer they get lines of their own."""


def draw_loader(loader: LoaderNews, width: int) -> list[Text]:
    """Problems and refusals first, then a line for each stage."""
    lines = [Text(piece, "bold yellow") for piece in wrap(f"! {loader.problem}", width, 2)] if loader.problem else []
    if refused := refused_text(loader):
        lines += [Text(piece, "yellow") for piece in wrap(refused, width, 2)]
    rows = stage_rows(loader)
    if not rows:
        return lines or [Text("the loader has not reported yet", "dim")]
    name = min(max(len(row.name) for row in rows), MOST_NAME)
    queue = min(max(5, *(len(row.queue) for row in rows)), MOST_QUEUE)
    has_room = width - (name + 1 + BAR + LOAD + 1 + BAR + 1 + queue + 2) >= COUNTS
    head = f"{'stage':<{name}} {'load':<{BAR + LOAD}} {'queue':<{BAR + queue + 1}}"
    lines.append(Text(f"{head}  counts" if has_room else head, "dim"))
    for row in rows:
        line = _stage(row, name, queue)
        if has_room:
            line.append(fit(row.counts, max(width - line.cell_len, 0)), "dim")
        lines.append(line)
        if row.counts and not has_room:
            lines += [Text(f"  {piece}", "dim") for piece in wrap(row.counts, width - 2)]
    return lines


def _stage(row: StageRow, name: int, queue: int) -> Text:
    fill = Text(" " * BAR) if row.fill is None else bar(row.fill, BAR, "blue")
    return Text.assemble(
        (fit(row.name, name), "bold"),
        " ",
        bar(row.load, BAR, "green"),
        f"{percent(row.load):>{LOAD}} ",
        fill,
        f" {fit(row.queue, queue)}  ",
    )
