"""Nash equilibrium of two-player games whose payoffs add up to a constant: exact, by one linear program; and what is
made of it, rectified Nash and relative population performance.

There may be many equilibria. `select="max_entropy"`, the default, takes for each player the optimal strategy of
highest entropy (Balduzzi et al. 2018, "Re-evaluating evaluation"). It is the only rule here that depends on nothing but
the game: not on the order of the policies, nor on the solver; copies of a policy share what one of them would get.
`select="vertex"` takes the vertex that HiGHS ends on, with few policies: faster where there are many equilibria.
Invariant: `nash_conv` of the answer is at most 1e-9 of the range of the payoffs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ludus.errors import LudusError
from ludus.league.payoffs.normal_form import Array, completed, normalised, scattered, unit_scaled, zero_sum_table
from ludus.league.solvers.face import NEGATIVE_ENTROPY, find_face, minimise, run_linear_program

SUM_TOLERANCE = 1e-9
"""Payoffs add up to a constant if they do to this share of the largest one."""
TIE = 1e-9
"""Policies whose payoffs differ by less than this share of the range are equally good; those with a smaller probability
are not in the support."""

Select = Literal["max_entropy", "vertex"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RectifiedResponse:
    """A policy that gets a best response of its own."""

    policy: int
    weight: float
    """Its probability in the Nash equilibrium."""
    opponents: Array
    """The other player's policies it is trained against. `[a_other]`"""


def nash(table: ArrayLike, *, select: Select = "max_entropy") -> list[Array]:
    """One strategy per player."""
    if select not in ("max_entropy", "vertex"):
        raise LudusError(f"nash: select is max_entropy or vertex, not {select!r}")
    payoffs = _unit_matrix(completed(table))
    row, column = _solve_pair(payoffs)
    if select == "max_entropy" and not _is_only_one(payoffs, row, column):
        return [_most_mixed(payoffs, row, column), _most_mixed(-payoffs.T, column, row)]
    return [row, column]


def game_value(table: ArrayLike) -> float:
    """What the first player gets on average if both play a Nash equilibrium."""
    whole = completed(table)
    row, column = nash(whole, select="vertex")
    return float(row @ whole[0] @ column)


def relative_population_performance(cross: ArrayLike) -> float:
    """Which of two populations is stronger as a whole (Balduzzi et al. 2019, definition 3).

    `cross` is what policy i of P gets against policy j of Q, `[p, q]`. The answer is the value of that zero-sum game,
    v(P, Q) = p' A q for a Nash equilibrium (p, q) of A: positive if P is stronger; v(P, Q) = -v(Q, P), and no policy
    that is worse than others changes it. Finite for every finite table; missing cells are read as the mean of the known
    ones.
    """
    return game_value(zero_sum_table(cross))


def rectified_responses(
    table: ArrayLike, player: int = 0, *, select: Select = "max_entropy"
) -> list[RectifiedResponse]:
    """The learners of one player in PSRO_rN (Balduzzi et al. 2019), and what each is trained against.

    Every policy i in the support of the Nash equilibrium (p, q) gets a new best response of its own, trained against

        q_i(j)  in proportion to  q(j) [u(i, j) >= value of the game]

    so that strengths are amplified and weaknesses ignored. In a symmetric game the value is 0 and the rule is "those it
    beats or ties with". No q_i is empty, since at a Nash equilibrium the mean of u(i, j) over q is the value for every
    i in the support.
    """
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


def rectified_nash(table: ArrayLike, *, select: Select = "max_entropy") -> list[Array]:
    """How often each player's policies are met by the other player's learners: the mean of q_i with the weights p_i."""
    learners = [rectified_responses(table, 1 - player, select=select) for player in (0, 1)]
    return [normalised(np.sum([each.weight * each.opponents for each in responses], axis=0)) for responses in learners]


def _unit_matrix(table: Array) -> Array:
    """The first player's payoffs, centred and with a range of 1 (or 0). `[a1, a2]`."""
    if len(table) != 2:
        raise LudusError(f"nash is for 2 players, not {len(table)}; use ce, cce, alpha_rank or prd for more")
    unit = unit_scaled(table)
    sums = unit[0] + unit[1]
    if np.ptp(sums) > SUM_TOLERANCE:
        raise LudusError("nash is for games whose payoffs add up to a constant, and these do not; use ce or cce")
    matrix = (unit[0] - unit[1]) / 2.0
    most, least = matrix.max(), matrix.min()
    return np.asarray((matrix - (most + least) / 2.0) / ((most - least) or 1.0))


def _solve_pair(payoffs: Array) -> tuple[Array, Array]:
    """A maximin strategy of the rows and, as its dual, a minimax strategy of the columns."""
    rows, columns = payoffs.shape
    solved = run_linear_program(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-payoffs.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * rows + [(None, None)],
    )
    row, column = normalised(solved.x[:-1]), normalised(-solved.ineqlin.marginals)
    return _sharpened(payoffs, row, column)


def _sharpened(payoffs: Array, row: Array, column: Array) -> tuple[Array, Array]:
    """The same supports with probabilities to rounding, where they determine them; else what was given."""
    own, other = np.flatnonzero(row > TIE), np.flatnonzero(column > TIE)
    if own.size != other.size:
        return row, column
    try:
        better = (
            _equaliser(payoffs[np.ix_(own, other)].T, own, row.size),
            _equaliser(payoffs[np.ix_(own, other)], other, column.size),
        )
    except np.linalg.LinAlgError:
        return row, column
    return better if _gap(payoffs, *better) <= _gap(payoffs, row, column) else (row, column)


def _equaliser(payoffs: Array, support: NDArray[np.intp], size: int) -> Array:
    """Probabilities that make all rows of a square matrix equally good."""
    count = len(payoffs)
    bordered = np.block([[payoffs, -np.ones((count, 1))], [np.ones((1, count)), np.zeros((1, 1))]])
    return normalised(scattered(np.linalg.solve(bordered, np.append(np.zeros(count), 1.0))[:-1], support, size))


def _is_only_one(payoffs: Array, row: Array, column: Array) -> bool:
    """Whether no other equilibrium exists: every best reply is played, and the supports determine the rest."""
    own, other = row > TIE, column > TIE
    by_row, by_column = payoffs @ column, payoffs.T @ row
    if own.sum() != other.sum():
        return False
    if ((by_row >= by_row.max() - TIE) != own).any() or ((by_column <= by_column.min() + TIE) != other).any():
        return False
    core = payoffs[np.ix_(own, other)]
    bordered = np.block([[core, np.ones((len(core), 1))], [np.ones((1, len(core))), np.zeros((1, 1))]])
    return bool(np.linalg.svd(bordered, compute_uv=False)[-1] > TIE)


def _most_mixed(payoffs: Array, row: Array, column: Array) -> Array:
    """The optimal strategy of the rows with the highest entropy; `row` if it cannot be told apart from rounding."""
    replies = payoffs @ column
    candidates = np.flatnonzero(replies >= replies.max() - TIE)
    value = (payoffs.T @ row).min() - 1e-12
    face = find_face(value - payoffs[candidates].T)
    if face is None:
        return row
    mixed = normalised(scattered(minimise(NEGATIVE_ENTROPY, face), candidates[face.support], row.size))
    return mixed if (payoffs.T @ mixed).min() >= value - TIE / 4.0 else row


def _gap(payoffs: Array, row: Array, column: Array) -> float:
    return float((payoffs @ column).max() - (payoffs.T @ row).min())
