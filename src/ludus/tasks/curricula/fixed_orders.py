"""Orders that follow from the number of the group alone: sequential, shuffle, random, easy to hard."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ludus.config import EasyToHardConfig, RandomConfig, SequentialConfig, ShuffleConfig
from ludus.records import derive_seed
from ludus.tasks.curricula.chance import Epochs
from ludus.tasks.curricula.difficulty import levels_of, required_difficulties
from ludus.tasks.curricula.protocol import Fixed, Rows


class Sequential(Fixed):
    """As they stand in the set, over and over."""

    def __init__(self, config: SequentialConfig, rows: Rows, seed: int) -> None:
        self._count = len(rows)

    def choose(self, number: int) -> int:
        """The next row."""
        return number % self._count


class Shuffle(Fixed):
    """Each row once in each epoch; every epoch has its own order."""

    def __init__(self, config: ShuffleConfig, rows: Rows, seed: int) -> None:
        self._count = len(rows)
        self._epochs = Epochs(len(rows), seed)

    def choose(self, number: int) -> int:
        """The next row of the epoch's order."""
        epoch, place = divmod(number, self._count)
        return int(self._epochs.order(epoch)[place])


class Random(Fixed):
    """Any row at any time."""

    def __init__(self, config: RandomConfig, rows: Rows, seed: int) -> None:
        self._count = len(rows)
        self._seed = seed

    def choose(self, number: int) -> int:
        """A row, drawn with replacement."""
        return derive_seed(self._seed, "random", number) % self._count


class EasyToHard(Fixed):
    """Each row once in each epoch, by rising difficulty; every epoch shuffles what is equally hard."""

    def __init__(self, config: EasyToHardConfig, rows: Rows, seed: int) -> None:
        difficulties = required_difficulties(rows)
        self._hardness: NDArray[np.float64] | NDArray[np.int64] = difficulties
        if config.levels is not None:
            self._hardness = levels_of(difficulties, config.levels)
        self._epochs = Epochs(len(rows), seed)
        self._order: tuple[int, NDArray[np.int64]] = (-1, np.zeros(0, np.int64))

    def choose(self, number: int) -> int:
        """The next harder row."""
        epoch, place = divmod(number, len(self._hardness))
        if self._order[0] != epoch:
            shuffled = self._epochs.order(epoch)
            self._order = (epoch, shuffled[np.argsort(self._hardness[shuffled], kind="stable")])
        return int(self._order[1][place])
