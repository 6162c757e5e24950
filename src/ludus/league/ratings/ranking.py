"""From the returns of a match to the order of finish of its members."""

from __future__ import annotations

from collections.abc import Sequence

TIE_DIGITS = 6
"""Returns that agree to this many decimals are a draw: they differ by rounding only."""


def mean_returns(seats: Sequence[str], returns: Sequence[float]) -> dict[str, float]:
    """Mean return of each distinct member, in the order of first seat.

    A member that holds several seats counts as one player: it is never compared with itself.
    """
    totals: dict[str, list[float]] = {}
    for member, value in zip(seats, returns, strict=True):
        totals.setdefault(member, []).append(value)
    return {member: sum(values) / len(values) for member, values in totals.items()}


def ranks(returns: Sequence[float]) -> list[float]:
    """Rank of each player by return: lower is better, equal returns share a rank."""
    return [-round(value, TIE_DIGITS) for value in returns]
