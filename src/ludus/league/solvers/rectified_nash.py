"""Rectified Nash, PSRO_rN (Balduzzi et al. 2019): learners meet those they already do well against, by Nash weights.

Every policy i in the support of the Nash equilibrium (p, q) gets a new best response of its own, trained against

    q_i(j)  in proportion to  q(j) [u(i, j) >= value of the game]

so that strengths are amplified and weaknesses ignored. `rectified_responses` gives these distributions one by one.
`rectified_nash` gives the opponents that a learner sees who is drawn by p: the mean of q_i with the weights p_i. In a
symmetric game the value is 0 and the rule is "those it beats or ties with". Invariant: no q_i is empty, since at a Nash
equilibrium the mean of u(i, j) over q is the value for every i in the support.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ludus.league.payoffs.normal_form import Array, completed, normalised, unit_scaled
from ludus.league.solvers.nash import nash

TIE = 1e-9
"""Policies with a smaller probability are not in the support; payoffs this close to the value are ties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RectifiedResponse:
    """A policy that gets a best response of its own."""

    policy: int
    weight: float
    """Its probability in the Nash equilibrium."""
    opponents: Array
    """The other player's policies it is trained against. `[a_other]`"""


def rectified_responses(
    table: ArrayLike, player: int = 0, *, select: Literal["max_entropy", "vertex"] = "max_entropy"
) -> list[RectifiedResponse]:
    """The learners of one player and what each is trained against."""
    payoffs = completed(table)
    strategies = nash(payoffs, select=select)
    own, other = strategies[player], strategies[1 - player]
    unit = unit_scaled(payoffs)[player]
    values = unit if player == 0 else unit.T
    at_least = float(own @ values @ other) - TIE
    return [
        RectifiedResponse(
            policy=int(policy),
            weight=float(own[policy]),
            opponents=normalised(np.where(values[policy] >= at_least, other, 0.0)),
        )
        for policy in np.flatnonzero(own > TIE)
    ]


def rectified_nash(table: ArrayLike, *, select: Literal["max_entropy", "vertex"] = "max_entropy") -> list[Array]:
    """For each player, how often its policies are met by the other player's learners."""
    return [_mean(rectified_responses(table, 1 - player, select=select)) for player in (0, 1)]


def _mean(responses: list[RectifiedResponse]) -> Array:
    return normalised(np.sum([response.weight * response.opponents for response in responses], axis=0))
