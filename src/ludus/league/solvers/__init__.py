"""From a table of payoffs to how often each policy is played: the meta-solvers of PSRO and leagues.

Imports SciPy; the rest of the league does not, so import this package where a solver is needed.
"""

from ludus.league.payoffs.normal_form import (
    expected_payoffs,
    marginals,
    nash_conv,
    product,
    symmetric_table,
    zero_sum_table,
)
from ludus.league.solvers.alpha_rank import alpha_rank
from ludus.league.solvers.correlated import cce_gap, ce_gap, coarse_correlated, correlated
from ludus.league.solvers.fictitious_play import fictitious_play
from ludus.league.solvers.nash import game_value, nash
from ludus.league.solvers.pfsp import pfsp
from ludus.league.solvers.rectified_nash import RectifiedResponse, rectified_nash, rectified_responses
from ludus.league.solvers.registry import (
    META_SOLVERS,
    MetaSolver,
    find_meta_solver,
    register_meta_solver,
    solve,
    solve_joint,
)
from ludus.league.solvers.regret_matching import regret_matching
from ludus.league.solvers.replicator import projected_replicator
from ludus.league.solvers.uniform import uniform

__all__ = [
    "META_SOLVERS",
    "MetaSolver",
    "RectifiedResponse",
    "alpha_rank",
    "cce_gap",
    "ce_gap",
    "coarse_correlated",
    "correlated",
    "expected_payoffs",
    "fictitious_play",
    "find_meta_solver",
    "game_value",
    "marginals",
    "nash",
    "nash_conv",
    "pfsp",
    "product",
    "projected_replicator",
    "rectified_nash",
    "rectified_responses",
    "register_meta_solver",
    "regret_matching",
    "solve",
    "solve_joint",
    "symmetric_table",
    "uniform",
    "zero_sum_table",
]
