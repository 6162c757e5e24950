"""When a population is good enough, or will not become better. To add a stopper: a key in `StopConfig`, a line here."""

from __future__ import annotations

import numpy as np

from ludus.config import StopConfig
from ludus.league.exact.psro import ExactPsro


def reason_to_stop(psro: ExactPsro, stop: StopConfig) -> str:
    """Why there should be no further generation, in words; empty as long as there should."""
    nash_conv, target = psro.nash_conv, stop.nash_conv
    if target is not None and nash_conv <= target:
        return f"NashConv {nash_conv:.3g} is at most {target:g} (population.stop.nash_conv)"
    if psro.is_solved:
        return f"no policy does better against the meta-strategy (NashConv {nash_conv:.3g})"
    if stop.plateau is not None and psro.generation - int(np.argmin(psro.curve)) >= stop.plateau:
        return f"no lower NashConv in {stop.plateau} generations (population.stop.plateau)"
    if psro.generation >= stop.generations:
        return f"generation {psro.generation} was the last (population.stop.generations)"
    return ""
