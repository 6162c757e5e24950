"""Who plays in the league, how good each is, and who meets whom next.

What needs SciPy is not loaded with it: `ludus.league.meta_solvers` and `ludus.league.relative_performance`.
"""

from ludus.league.elo import EloRatings, fit_elo, update_elo
from ludus.league.empirical_game import EmpiricalGame
from ludus.league.ladder import LadderRow, PayoffTable, Standing, standing_of_pool, standing_of_run
from ludus.league.match_planner import plan_matches
from ludus.league.matchmaker import Matchmaker, evaluation_seats, rating_opponents
from ludus.league.member import Member
from ludus.league.opponents import OPPONENTS, OpponentSampler, make_sampler, register_opponents
from ludus.league.payoffs import Cell, Payoffs
from ludus.league.pool import Pool
from ludus.league.trueskill import Rating, TrueSkill

__all__ = [
    "OPPONENTS",
    "Cell",
    "EloRatings",
    "EmpiricalGame",
    "LadderRow",
    "Matchmaker",
    "Member",
    "OpponentSampler",
    "PayoffTable",
    "Payoffs",
    "Pool",
    "Rating",
    "Standing",
    "TrueSkill",
    "evaluation_seats",
    "fit_elo",
    "make_sampler",
    "plan_matches",
    "rating_opponents",
    "register_opponents",
    "standing_of_pool",
    "standing_of_run",
    "update_elo",
]
