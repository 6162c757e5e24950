"""When a population is done."""

from __future__ import annotations

from ludus.config import StopConfig
from ludus.runs.population.population_state import PopulationState


def reason_to_stop(state: PopulationState, stop: StopConfig) -> str:
    """Why there is no further generation; empty while there is one."""
    curve = nash_convs(state)
    if state.generation >= stop.generations:
        return f"{state.generation:,} generations are done (population.stop.generations)"
    if curve and stop.nash_conv is not None and curve[-1] <= stop.nash_conv:
        return f"NashConv {curve[-1]:.4g} is at most population.stop.nash_conv ({stop.nash_conv:g})"
    if curve and stop.plateau is not None:
        since = len(curve) - 1 - curve.index(min(curve))
        if since >= stop.plateau:
            return f"no lower NashConv for {since} generations (population.stop.plateau)"
    return ""


def nash_convs(state: PopulationState) -> list[float]:
    """Exploitability of every generation in which it is known: exact, or else its bound."""
    metrics = [entry["metrics"] for entry in state.history]
    key = "psro/nash_conv" if any("psro/nash_conv" in each for each in metrics) else "psro/nash_conv_bound"
    return [each[key] for each in metrics if key in each]
