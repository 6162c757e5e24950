"""Populations in games that are small enough to compute with: exact best responses, payoffs and exploitability.

What needs SciPy is here; `ludus.league` does not import it.
"""

from ludus.league.exact.meta_game import MetaStrategy, solve_meta_game
from ludus.league.exact.psro import ExactPsro, SeatPopulation, reason_to_stop

__all__ = ["ExactPsro", "MetaStrategy", "SeatPopulation", "reason_to_stop", "solve_meta_game"]
