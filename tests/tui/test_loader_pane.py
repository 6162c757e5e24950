"""The loader's stages as a table: shared rows for every screen, and the pane that draws them."""

import pytest

from ludus.daemon.messages import LoaderNews, LoaderStageStatus, Status
from ludus.monitor.loader_table import refused_text, stage_rows
from ludus.monitor.run_view import RunView
from ludus.tui.panes.collection import COLLECTION

LOADER = LoaderNews(
    stages=(
        LoaderStageStatus(name="directory_watch", length=3, counts={"files": 20, "skipped": 0}),
        LoaderStageStatus(name="chunk_sources", load=0.5, counts={"chunks": 9, "refused": 5, "gz_bytes": 161_000}),
        LoaderStageStatus(name="chunk_pool", length=75_000, capacity=100_000, counts={"passes": 2}),
    ),
    refused={"gzip": 1, "bomb": 12},
)


def test_rows_say_what_a_stage_does() -> None:
    watch, sources, pool = stage_rows(LOADER)
    assert (watch.name, watch.queue, watch.fill, watch.counts) == ("directory watch", "3 waiting", None, "files 20")
    assert (sources.load, sources.counts) == (0.5, "chunks 9  refused 5  gz 161kB")
    assert (pool.fill, pool.queue) == (0.75, "75.0k of 100k")
    assert refused_text(LOADER) == "13 refused: 12 bomb, 1 gzip"
    assert refused_text(LoaderNews()) == ""


@pytest.mark.parametrize("width", [50, 120])
def test_the_pane_shows_stages_counts_refusals_and_problems(width: int) -> None:
    view = RunView()
    news = LOADER.model_copy(update={"problem": "/data/chunks does not exist"})
    view.status = Status(stage="WAITING FOR DATA", loader=news)
    text = [line.plain for line in COLLECTION.lines(view, width)]
    assert text[0] == "! /data/chunks does not exist"
    assert text[1] == "13 refused: 12 bomb, 1 gzip"
    pool = next(number for number, line in enumerate(text) if line.startswith("chunk pool"))
    assert "75.0k of 100k" in text[pool]
    assert "passes 2" in (text[pool] if width > 100 else text[pool + 1])
    assert all(len(line) <= width for line in text)
