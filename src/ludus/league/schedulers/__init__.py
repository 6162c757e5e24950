"""Schedulers: who learns next, against whom, until when. Add one by writing a class with the methods of `Scheduler`, an
entry in `SCHEDULERS` and its name in `config/sections/population.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from ludus.league.schedulers.alpha_star import AlphaStarLeague
from ludus.league.schedulers.assignment import Assignment, Learner, Scheduler, View
from ludus.league.schedulers.pipelined import PipelinedPsro
from ludus.league.schedulers.psro import FixedOpponents, Psro, SelfPlay
from ludus.league.schedulers.sequential_league import SequentialLeague

SCHEDULERS: dict[str, Callable[[], Scheduler]] = {
    "psro": Psro,
    "pipelined_psro": PipelinedPsro,
    "self_play": SelfPlay,
    "fixed": FixedOpponents,
    "sequential_league": SequentialLeague,
    "league": AlphaStarLeague,
}

__all__ = [
    "SCHEDULERS",
    "AlphaStarLeague",
    "Assignment",
    "FixedOpponents",
    "Learner",
    "PipelinedPsro",
    "Psro",
    "Scheduler",
    "SelfPlay",
    "SequentialLeague",
    "View",
]
