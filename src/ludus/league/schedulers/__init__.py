"""Schedulers: who learns next, against whom, until when. Add one by deriving a class from `Scheduler`, with an
entry in `SCHEDULERS` and its name in `config/sections/population.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from ludus.league.schedulers.alpha_star import AlphaStarLeague
from ludus.league.schedulers.assignment import Assignment, Learner, Scheduler, ScoreBook, View
from ludus.league.schedulers.psro import FixedOpponents, PipelinedPsro, Psro, SelfPlay, SequentialLeague

SCHEDULERS: dict[str, Callable[[], Scheduler]] = {
    "psro": Psro,
    "pipelined_psro": PipelinedPsro,
    "self_play": SelfPlay,
    "fixed": FixedOpponents,
    "sequential_league": SequentialLeague,
    "league": AlphaStarLeague,
}

__all__ = ["SCHEDULERS", "Assignment", "Learner", "Scheduler", "ScoreBook", "View"]
