"""`ludus bench store` measures what it says, on both sides."""

from __future__ import annotations

from pathlib import Path

from ludus.bench.measuring import Figure
from ludus.bench.store import bench_store


def test_bench_gives_both_figures_beside_their_peer_and_cleans_up(tmp_path: Path) -> None:
    figures = bench_store(rounds=1, seconds=0, directory=tmp_path, batches=2)
    assert [figure.name for figure in figures] == ["written", "read"]
    assert all(figure.value > 0 and figure.peer == "plain sqlite3" for figure in figures)
    assert all(figure.to_json().keys() >= {"value", "unit", "peer", "peer_value", "ratio"} for figure in figures)
    assert list(tmp_path.iterdir()) == []


def test_ratio_is_ours_over_theirs() -> None:
    assert Figure.against("x", 6.0, "u", "peer", 2.0).ratio == 3.0
    assert Figure.alone("x", 6.0, "u").peer is None
