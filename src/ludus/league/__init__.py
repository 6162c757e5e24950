"""The league: its members, their ratings and payoffs, and the next opponents. `ludus.league.solvers`, which needs
SciPy, is not loaded with it.
"""

from ludus.league.matchmaking.match_planner import plan_matches
from ludus.league.matchmaking.matchmaker import (
    OPPONENTS,
    Matchmaker,
    OpponentSampler,
    evaluation_seats,
    make_sampler,
    rating_opponents,
    register_opponents,
)
from ludus.league.matchmaking.member import Member
from ludus.league.matchmaking.pool import Pool
from ludus.league.payoffs.cells import Cell, Payoffs
from ludus.league.payoffs.empirical_game import EmpiricalGame
from ludus.league.ratings.elo import EloRatings, fit_elo, update_elo
from ludus.league.ratings.trueskill import Rating, TrueSkill

__all__ = [
    "OPPONENTS",
    "Cell",
    "EloRatings",
    "EmpiricalGame",
    "Matchmaker",
    "Member",
    "OpponentSampler",
    "Payoffs",
    "Pool",
    "Rating",
    "TrueSkill",
    "evaluation_seats",
    "fit_elo",
    "make_sampler",
    "plan_matches",
    "rating_opponents",
    "register_opponents",
    "update_elo",
]
