"""Who sits beside a learner, with which probability: what a scheduler gives a learner to answer.

`others` are drawn independently for each other seat while the learner takes every seat in turn. `fixed` line-ups are
drawn whole and name every side (a seat, or a team); the learner has the one that is None. Invariant: there is one kind
or the other, every probability is positive, and they sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ludus.errors import CorruptRecord, LudusError
from ludus.records import PolicyRef

LineUp = tuple[PolicyRef | None, ...]

NEGLIGIBLE = 1e-6
"""Policies that are played less often than this are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUps:
    """A distribution over the opponents of one learner."""

    others: tuple[tuple[PolicyRef, float], ...] = ()
    fixed: tuple[tuple[LineUp, float], ...] = ()

    @classmethod
    def of_others(cls, shares: Iterable[tuple[PolicyRef, float]]) -> LineUps:
        """Opponents for any seat; shares need not sum to 1, and equal policies add up."""
        total: dict[PolicyRef, float] = {}
        for ref, share in shares:
            total[ref] = total.get(ref, 0.0) + share
        return cls(others=_normalised(total.items()))

    @classmethod
    def of_seats(cls, shares: Iterable[tuple[LineUp, float]]) -> LineUps:
        """Whole line-ups; shares need not sum to 1."""
        return cls(fixed=_normalised(shares))

    @property
    def policies(self) -> tuple[PolicyRef, ...]:
        """Everybody who can be drawn, each once."""
        named = [ref for ref, _ in self.others] + [ref for seats, _ in self.fixed for ref in seats if ref is not None]
        return tuple(dict.fromkeys(named))

    @property
    def seat(self) -> int | None:
        """The seat that the learner always has; None where it takes every seat in turn."""
        return self.fixed[0][0].index(None) if self.fixed else None

    def shares(self) -> list[tuple[PolicyRef, float]]:
        """How often each opponent is met, by policy; of several seats, their mean."""
        if self.others:
            return list(self.others)
        total = dict.fromkeys(self.policies, 0.0)
        for seats, share in self.fixed:
            present = [ref for ref in seats if ref is not None]
            for ref in present:
                total[ref] += share / len(present)
        return list(total.items())

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "others": [[str(ref), share] for ref, share in self.others],
            "fixed": [[[None if ref is None else str(ref) for ref in seats], share] for seats, share in self.fixed],
        }

    @classmethod
    def from_json(cls, value: Any) -> LineUps:
        """The inverse of `to_json`.

        Raises:
            CorruptRecord: the value is none.
        """
        try:
            found = cls(
                others=tuple((PolicyRef.parse(ref), float(share)) for ref, share in value["others"]),
                fixed=tuple(
                    (tuple(None if ref is None else PolicyRef.parse(ref) for ref in seats), float(share))
                    for seats, share in value["fixed"]
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptRecord(f"these are no line-ups: {error!r}") from error
        shares = [share for _, share in (*found.others, *found.fixed)]
        if bool(found.others) == bool(found.fixed) or not all(isfinite(share) and share > 0 for share in shares):
            raise CorruptRecord("line-ups name others or seats, each with a positive share")
        if any(seats.count(None) != 1 for seats, _ in found.fixed):
            raise CorruptRecord("a line-up has one seat for the learner")
        return found


def _normalised(shares: Iterable[tuple[Any, float]]) -> tuple[tuple[Any, float], ...]:
    listed = list(shares)
    total = sum(share for _, share in listed)
    kept = [(what, share) for what, share in listed if share > NEGLIGIBLE * total]
    if not kept:
        raise LudusError("a learner needs somebody to answer, and there is nobody with a positive share")
    whole = sum(share for _, share in kept)
    return tuple((what, share / whole) for what, share in kept)
