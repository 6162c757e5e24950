"""`ludus bench runtime`: a Ray cluster beside this machine's own processes, with all sides interleaved in one run.

Connect Four with a 128x128 network, asynchronous; exploring alone too, with one and two explorers, to see what a
second one gains. Ray runs on a cluster that ludus starts here, so both sides have the same cores. Publication is
measured by `publication.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from ludus.bench.loop import ASYNC, run_loop
from ludus.bench.measuring import Figure, Measured, run_rounds, run_this_side
from ludus.bench.publication import measure_copy, measure_publication

EXPLORE = ASYNC + "mode: explore\nbuffer: {capacity: 100000000}\n"
MEGABYTES = (1, 100)
UNIT = "steps per second"


def bench_runtime(*, rounds: int, seconds: float) -> list[Figure]:
    """Run all sides in turn, `rounds` times, and report medians."""
    results: dict[str, list[Measured]] = {side: [] for side in SIDES}
    for side, measured in run_rounds("ludus.bench.runtime", list(SIDES), rounds=rounds, seconds=seconds):
        results[side].append(measured)
    speed = {
        side: median(each["steps"] / each["wall_s"] for each in found)
        for side, found in results.items()
        if "steps" in found[0]
    }
    gains = {kind: speed[f"{kind}_2"] / speed[f"{kind}_1"] for kind in ("ray", "local")}
    figures = [
        Figure.against("play and train", speed["ray_train"], UNIT, "local", speed["local_train"]),
        Figure.against("explore, 1 explorer", speed["ray_1"], UNIT, "local", speed["local_1"]),
        Figure.against("explore, 2 explorers", speed["ray_2"], UNIT, "local", speed["local_2"]),
        Figure.against("second explorer, percent", 100 * gains["ray"], "of one", "local", 100 * gains["local"]),
    ]
    for size in MEGABYTES:
        found = results[f"publish_{size}"]
        ours, bare = (
            1000 * median(each["seconds"] for each in results[f"{what}_{size}"]) for what in ("publish", "copy")
        )
        figures.append(Figure.against(f"publication of {size} MB to two nodes", ours, "ms", "bare TCP copy", bare))
        figures.append(
            Figure.alone(f"transfers of {size} MB per version", median(each["transfers"] for each in found), "")
        )
    return figures


def _run(text: str, runtime: str, workers: int) -> Callable[[float], Measured]:
    text = text.replace("workers: 1", f"workers: {workers}")
    return lambda seconds: run_loop(seconds, f"{text}runtime: {runtime}\n")


SIDES: dict[str, Callable[[float], Measured]] = {
    "local_train": _run(ASYNC, "local", 1),
    "ray_train": _run(ASYNC, "ray", 1),
    "local_1": _run(EXPLORE, "local", 1),
    "ray_1": _run(EXPLORE, "ray", 1),
    "local_2": _run(EXPLORE, "local", 2),
    "ray_2": _run(EXPLORE, "ray", 2),
    **{f"publish_{size}": lambda seconds, size=size: measure_publication(size, seconds) for size in MEGABYTES},  # type: ignore[misc]
    **{f"copy_{size}": lambda seconds, size=size: measure_copy(size, seconds) for size in MEGABYTES},  # type: ignore[misc]
}

if __name__ == "__main__":
    run_this_side(SIDES)
