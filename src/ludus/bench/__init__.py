"""Measurements beside what users would pick instead: one module for each benchmark, with its sides."""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.bench.lm import bench_lm
    from ludus.bench.loader import bench_loader
    from ludus.bench.loop import bench_loop
    from ludus.bench.measuring import Figure
    from ludus.bench.runtime import bench_runtime
    from ludus.bench.scale import bench_scale
    from ludus.bench.store import bench_store
    from ludus.bench.telemetry import bench_telemetry
    from ludus.bench.tui import bench_tui
    from ludus.bench.watch import bench_watch
    from ludus.bench.web import bench_web

__all__ = [
    "Figure",
    "bench_lm",
    "bench_loader",
    "bench_loop",
    "bench_runtime",
    "bench_scale",
    "bench_store",
    "bench_telemetry",
    "bench_tui",
    "bench_watch",
    "bench_web",
]

__getattr__ = import_later(__name__)
