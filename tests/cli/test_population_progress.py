"""What `ludus run` says of populations while they grow and when they are done, computed and learnt."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from ludus.cli.progress import LivePanel, PlainLines, population_progress
from ludus.cli.summary import final_lines
from ludus.config import RunConfig, build_config, resolve
from ludus.reports.number_text import decades, sparkline
from ludus.runs.driver import Activity, Status
from ludus.runs.staged import AnyRun


def config_of(scheduler: str = "psro", oracle: str = "learned") -> RunConfig:
    values: dict[str, Any] = {
        "name": "x",
        "games": ["open_spiel:kuhn_poker"],
        "population": {"oracle": oracle, "scheduler": scheduler},
    }
    return resolve(build_config(values, ["train.steps=5000"] if oracle == "learned" else []))


def status_of(stage: Activity = "training", name: str = "main-2", steps: int = 1, **metrics: float) -> Status:
    return Status(
        stage=stage,
        run="x",
        run_dir="runs/x",
        stage_name=name,
        steps=steps,
        total_steps=9,
        metrics={f"psro/{key}": value for key, value in metrics.items()},
    )


def test_progress_names_who_learns_how_far_and_what_the_number_is_worth() -> None:
    status = status_of(learner_steps=1200.0, nash_conv_bound=0.5)
    assert population_progress(config_of(), status) == "main-2: 1,200 of 5,000 steps  NashConv 0.5 (lower bound)"
    both = status_of(name="main-2, other-2", learner_steps=1200.0, nash_conv=0.5)
    assert population_progress(config_of(), both) == "main-2, other-2: 1,200 of 10,000 steps  NashConv 0.5 (exact)"


def test_learners_of_a_league_go_on_without_an_end_that_could_be_named() -> None:
    assert population_progress(config_of("league"), status_of(learner_steps=120.0)) == "main-2: 120 steps"


def test_measuring_is_no_learning() -> None:
    for stage in ("training", "evaluating"):
        status = status_of(cast(Activity, stage), "measuring", learner_steps=0.0)
        assert population_progress(config_of(), status) == "measuring"


def test_a_computed_population_shows_the_walk_and_then_the_exact_value() -> None:
    config = config_of(oracle="exact")
    assert population_progress(config, status_of("starting", "", histories=1234.0)) == "1,234 histories found"
    assert population_progress(config, status_of(name="", nash_conv=0.25)) == "NashConv 0.25 (exact)"


def test_the_end_of_a_population_that_learns_is_told_without_what_only_computed_ones_have(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"event": "population_done", "reason": "3 generations are done"}\n')
    status = status_of(steps=3, nash_conv_bound=0.17, policies=3.0, matches=1200.0, cpu_s=42.061)
    assert final_lines(status, events) == [
        "NashConv 0.17 (lower bound) after 3 generations, 3 policies; 1,200 matches; 42.06 CPU-seconds of PSRO",
        "no further generation: 3 generations are done",
    ]
    computed = {"psro/seat_0/policies": 7.0, "psro/seat_1/policies": 6.0}
    status = status_of(steps=6, nash_conv=0.0, value=-1 / 18, cpu_s=0.03)
    status.metrics.update(computed)
    (first, _) = final_lines(status, events)
    assert first.startswith("NashConv 0 (exact) after 6 generations, 7 + 6 policies; value of seat 0: -0.0555556; 0.03")


def fake_loop(config: RunConfig) -> AnyRun:
    return cast(AnyRun, SimpleNamespace(config=config, room_readings=dict))


def test_plain_lines_have_generations_and_no_rate_of_them() -> None:
    console = Console(file=io.StringIO(), width=200)
    PlainLines(console, fake_loop(config_of())).show(status_of(learner_steps=10.0, nash_conv_bound=0.5))
    file = console.file
    assert isinstance(file, io.StringIO)
    assert file.getvalue().split() == (
        [
            "training",
            "1/9",
            "generations",
            "main-2:",
            "10",
            "of",
            "5,000",
            "steps",
            "NashConv",
            "0.5",
            "(lower",
            "bound)",
        ]
    )


def test_the_panel_draws_a_point_for_each_generation() -> None:
    console = Console(file=io.StringIO(), width=100)
    panel = LivePanel(console, fake_loop(config_of()))
    for steps, value in ((1, 1.0), (1, 1.0), (2, 0.1)):
        panel.show(status_of(steps=steps, learner_steps=10.0, nash_conv_bound=value, policies=2.0))
    console.print(panel._live.renderable)
    file = console.file
    assert isinstance(file, io.StringIO)
    assert "main-2: 10 of 5,000 steps" in file.getvalue()
    line = next(line for line in file.getvalue().splitlines() if "NashConv" in line)
    assert line.split() == ["NashConv", "(lower", "bound)", "0.1", "█▁"]


@pytest.mark.parametrize(
    ("curve", "expected"),
    [([1.0, 0.1, 0.01], "█▅▁"), ([1.0, 0.5], "█▆"), ([1.0, 1e-9, 0.0], "█▁▁"), ([0.0, 0.0], "▁▁"), ([0.3], "█")],
)
def test_sparklines_are_logarithmic_over_one_to_five_powers_of_ten(curve: list[float], expected: str) -> None:
    assert sparkline(decades(curve), 0.0, 1.0) == expected
