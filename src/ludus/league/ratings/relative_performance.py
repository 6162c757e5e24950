"""Relative population performance: which of two populations is stronger as a whole.

Balduzzi et al. 2019, "Open-ended Learning in Symmetric Zero-sum Games", definition 3: of populations P and Q with the
cross table A[i, j] of what policy i of P gets against policy j of Q, it is the value of that zero-sum game,

    v(P, Q) = p' A q    for a Nash equilibrium (p, q) of A.

Positive if P is stronger; v(P, Q) = -v(Q, P), and no policy that is worse than others changes it. Invariant: finite for
every finite table; missing cells are read as the mean of the known ones.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from ludus.league.payoffs.normal_form import zero_sum_table
from ludus.league.solvers.nash import game_value


def relative_population_performance(cross: ArrayLike) -> float:
    """The value of the game between two populations; `cross` is what rows get against columns, `[p, q]`."""
    return game_value(zero_sum_table(cross))
