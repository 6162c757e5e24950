"""Several sets or streams in one run: which of them each group is of.

Invariant: a function of the group's number alone, in whole numbers: of the first n groups, set i has its share of n,
give or take as many as there are sets; and its groups are numbered 0, 1, 2, ... without a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ludus.records import derive_seed

_FINENESS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """How many of the numbers that reach a set are its own: `part` of every `whole`, beginning somewhere."""

    part: int
    whole: int
    phase: int

    def before(self, number: int) -> int:
        """Of the numbers below this one, how many are its own."""
        return (number * self.part + self.phase) // self.whole


class Mixture:
    """Sets by weight. The first set takes its share; the second its share of what is left, and so on."""

    def __init__(self, weights: Sequence[float], seed: int) -> None:
        self._shares: list[_Share] = []
        for index in range(len(weights) - 1):
            exact = Fraction(weights[index]) / sum(map(Fraction, weights[index:]))
            whole = min(exact.denominator, _FINENESS)
            part = min(max(round(exact * whole), 1), whole)
            phase = derive_seed(seed, "mixture", index) % whole
            self._shares.append(_Share(part=part, whole=whole, phase=phase))

    def place(self, group: int) -> tuple[int, int]:
        """Which set a group is of, and which of that set's groups it is."""
        number = group
        for index, share in enumerate(self._shares):
            own = share.before(number)
            if share.before(number + 1) > own:
                return index, own
            number -= own
        return len(self._shares), number

    def counts(self, group: int) -> list[int]:
        """Of the groups below this one, how many each set has."""
        counts, left = [], group
        for share in self._shares:
            counts.append(share.before(left))
            left -= counts[-1]
        return [*counts, left]
