"""What `ludus run` says of a run that makes a population, computed or learnt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ludus.config import RunConfig
    from ludus.runs.driver import Status

EXPLOITABILITY = (("psro/nash_conv", "exact"), ("psro/nash_conv_bound", "lower bound"))
"""Metrics of it, and what each is worth; the first that there is counts."""
MEASURING = "measuring"
"""What a status names while nobody learns."""
_WHOLE_RUNS = ("psro", "self_play", "fixed", "sequential_league")
"""Schedulers whose learners all learn for `train.steps`."""


def unit_of(config: RunConfig) -> str:
    """What a run counts."""
    return "steps" if config.population is None else "generations"


def exploitability(metrics: Mapping[str, float]) -> tuple[float, str] | None:
    """How far a population is from an equilibrium, and whether that is exact; None where it is not known."""
    return next(((metrics[name], worth) for name, worth in EXPLOITABILITY if name in metrics), None)


def population_progress(config: RunConfig, status: Status) -> str:
    """Who is learning, and how far the population is from an equilibrium; or how far its game's tree is walked."""
    if config.population is None:
        return ""
    found = exploitability(status.metrics)
    parts = [learning_progress(config, status)]
    if found is not None:
        parts.append(f"NashConv {found[0]:.4g} ({found[1]})")
    elif "psro/histories" in status.metrics:
        parts.append(f"{status.metrics['psro/histories']:,.0f} histories found")
    return "  ".join(part for part in parts if part)


def learning_progress(config: RunConfig, status: Status) -> str:
    """`main learns: 1,200 of 5,000 steps`; empty where nothing is learnt."""
    steps = status.metrics.get("psro/learner_steps")
    if steps is None or not status.stage_name or config.population is None or status.stage == "starting":
        return ""
    if status.stage != "training" or status.stage_name == MEASURING:
        return status.stage_name
    learners = status.stage_name.split(", ")
    whole = config.train.steps * len(learners) if config.population.scheduler in _WHOLE_RUNS else 0
    return f"{status.stage_name}: {steps:,.0f}{f' of {whole:,}' if whole else ''} steps"


def final_lines(status: Status, events: Path) -> list[str]:
    """How it ended: the last NashConv, what it cost, and why there was no further generation."""
    from ludus.storage.jsonl import read_jsonl

    metrics, found = status.metrics, exploitability(status.metrics)
    nash_conv = "NashConv not known" if found is None else f"NashConv {found[0]:.6g} ({found[1]})"
    ended = [event["reason"] for event in read_jsonl(events) if event.get("event") == "population_done"]
    return [
        f"{nash_conv} after {status.steps:,} generations, {_policies(metrics)} policies; "
        + "; ".join([*_costs(metrics), f"{metrics.get('psro/cpu_s', 0.0):.2f} CPU-seconds of PSRO"]),
        *([f"no further generation: {ended[-1]}"] if ended else []),
    ]


def _policies(metrics: Mapping[str, float]) -> str:
    seats = [f"psro/seat_{seat}/policies" for seat in (0, 1)]
    return " + ".join(f"{metrics[name]:.0f}" for name in (*seats, "psro/policies") if name in metrics)


def _costs(metrics: Mapping[str, float]) -> list[str]:
    words = (
        ("psro/value", "value of seat 0: {:.6g}"),
        ("psro/steps", "{:,.0f} steps of learners"),
        ("psro/matches", "{:,.0f} matches"),
    )
    return [text.format(metrics[name]) for name, text in words if name in metrics]
