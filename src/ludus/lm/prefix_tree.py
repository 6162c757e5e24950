"""Token sequences as a prefix tree: beginnings that sequences share are computed once, and nothing is computed in vain.

Sequences whose prompts are equal, token by token up to the first one that the policy sampled, are a family: the prompt
is their prefix, what follows in each is a branch. Rows are the tokens of all prefixes, then those of all branches; what
comes after a sequence's last target is left out, and so is that target itself, which predicts nothing.

Invariant: the hidden state of a row depends on its prefix and its own branch alone, as in the sequence it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ludus.records import Experiences

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Segments of rows, one behind the other."""

    lengths: Ints
    """`[k]`."""
    first: int
    """Row where the first segment begins."""

    @property
    def starts(self) -> Ints:
        """Row where each begins, `[k]`."""
        return self.first + np.cumsum(self.lengths) - self.lengths

    @property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @property
    def count(self) -> int:
        """Rows of all of them."""
        return int(self.lengths.sum())

    @property
    def is_even(self) -> bool:
        """Whether all are of one length."""
        return self.count == self.longest * len(self.lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTree:
    """What is computed for some sequences."""

    tokens: Ints
    """`[R]`."""
    positions: Ints
    """`[R]`: place of the token in its sequence."""
    prefixes: Segments
    branches: Segments
    """One per sequence; may be empty where the policy sampled one token only."""
    family: Ints
    """`[S]`: the prefix of each branch."""
    wanted: Ints
    """`[Q]`: rows that predict a target, in order."""
    place: Ints
    """`[M]`: for each target, which of those predicts it."""


def build_prefix_tree(rows: Experiences, targets: Ints) -> PrefixTree:
    """Lay out sequences that each have a target (`[M]` places in the step columns), after a prompt. Offsets begin at
    0."""
    owner = rows.sequence_of_step()[targets]
    within = targets - rows.offsets[owner]
    first, last = _first_and_last(within, owner, len(rows))
    heads, family = _families(rows, first)
    prefixes = Segments(lengths=first[heads], first=0)
    branches = Segments(lengths=last - first, first=prefixes.count)
    begin = rows.offsets[:-1]
    tokens = np.concatenate([_indices(begin[heads], prefixes.lengths), _indices(begin + first, branches.lengths)])
    positions = np.concatenate([_ranges(prefixes.lengths), _ranges(branches.lengths) + np.repeat(first, last - first)])
    prefix_end = prefixes.starts[family] + first - 1
    predicting = np.where(within == first[owner], prefix_end[owner], branches.starts[owner] + within - first[owner] - 1)
    wanted, place = np.unique(predicting, return_inverse=True)
    return PrefixTree(
        tokens=np.asarray(rows.steps["action"], np.int64)[tokens],
        positions=positions,
        prefixes=prefixes,
        branches=branches,
        family=family,
        wanted=wanted,
        place=place,
    )


def cut_by_family(rows: Experiences, targets: Ints, tokens: int) -> list[Ints]:
    """Rows in parts that compute at most so many tokens (or are one row), families together, long branches first."""
    owner = rows.sequence_of_step()[targets]
    first, last = _first_and_last(targets - rows.offsets[owner], owner, len(rows))
    heads, family = _families(rows, first)
    length = last - first
    longest = np.zeros(len(heads), np.int64)
    np.maximum.at(longest, family, length)
    order = np.lexsort((-length, family, -longest[family]))
    parts: list[list[int]] = []
    spent, current = tokens, -1
    for row in order.tolist():
        cost = int(length[row]) + (int(first[row]) if family[row] != current else 0)
        if spent + cost > tokens or not parts:
            parts.append([])
            spent, cost = 0, int(length[row] + first[row])
        parts[-1].append(row)
        spent, current = spent + cost, int(family[row])
    return [np.array(part, np.int64) for part in parts]


def _first_and_last(within: Ints, owner: Ints, count: int) -> tuple[Ints, Ints]:
    """Place of each sequence's first and last target, `[n]` each."""
    first, last = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(first, owner, within)
    np.maximum.at(last, owner, within)
    return first, last


def _families(rows: Experiences, first: Ints) -> tuple[Ints, Ints]:
    """A sequence of each family, in the order of their appearance, and the family of each sequence."""
    tokens = np.ascontiguousarray(rows.steps["action"])
    numbers: dict[bytes, int] = {}
    family = np.empty(len(rows), np.int64)
    heads: list[int] = []
    for row, (begin, length) in enumerate(zip(rows.offsets[:-1].tolist(), first.tolist(), strict=True)):
        number = numbers.setdefault(tokens[begin : begin + length].tobytes(), len(heads))
        if number == len(heads):
            heads.append(row)
        family[row] = number
    return np.array(heads, np.int64), family


def _ranges(lengths: Ints) -> Ints:
    """0, 1, ... for each length, behind each other."""
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _indices(starts: Ints, lengths: Ints) -> Ints:
    return np.repeat(starts, lengths) + _ranges(lengths)
