"""The trainer's loader, drawn where other runs show what was played: its stages, their queues, what was refused."""

from __future__ import annotations

from rich.text import Text

from ludus.daemon.messages import LoaderNews
from ludus.monitor.loader_table import StageRow, refused_text, stage_rows
from ludus.reports.number_text import percent
from ludus.tui.drawing import bar, fit, wrap

BAR, LOAD = 6, 5
MOST_NAME, MOST_QUEUE = 15, 14


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
    head = f"{'stage':<{name}} {'load':<{BAR + LOAD}} {'queue':<{BAR + queue + 1}}  counts"
    return [*lines, Text(head, "dim"), *(_stage(row, name, queue, width) for row in rows)]


def _stage(row: StageRow, name: int, queue: int, width: int) -> Text:
    fill = Text(" " * BAR) if row.fill is None else bar(row.fill, BAR, "blue")
    line = Text.assemble(
        (fit(row.name, name), "bold"),
        " ",
        bar(row.load, BAR, "green"),
        f"{percent(row.load):>{LOAD}} ",
        fill,
        f" {fit(row.queue, queue)}  ",
    )
    return line.append(fit(row.counts, max(width - line.cell_len, 0)), "dim")
