"""Curricula: in which order the rows of a taskset are attempted.

    choose      when a group's first task is made; again after a resume if the group was not finished
    feedback    when all attempts of a group have come back, in the order of the groups
    state       at a checkpoint, between groups

Add one from a plugin with `register_curriculum`, or from an installed package with an entry point in the group
`ludus.curricula`; a built-in one is an entry in `CURRICULA` and a model in `config/sections/tasks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ludus.config.sections.tasks import (
    AdaptiveConfig,
    CustomOrderConfig,
    EasyToHardConfig,
    RandomConfig,
    SequentialConfig,
    ShuffleConfig,
)
from ludus.errors import ConfigError, StorageError
from ludus.plugin_frames import in_words
from ludus.plugins import Registry
from ludus.records import derive_seed
from ludus.tasks.evidence import Evidence
from ludus.tasks.rows import DIFFICULTY, as_number

Rows = Sequence[Mapping[str, Any]]


@runtime_checkable
class Curriculum(Protocol):
    """Chooses the task of each group of attempts at one set.

    The same state and number must give the same row, whichever other numbers were asked for before: a resumed run asks
    only for what is missing. Chance comes from a generator made of (seed, number).
    """

    @property
    def adapts(self) -> bool:
        """Whether feedback changes what is chosen. If not, a choice is a function of its number alone."""
        ...

    def choose(self, number: int) -> int:
        """Which row the `number`-th group of this set attempts, counted from 0."""
        ...

    def feedback(self, row: int, rewards: Sequence[float]) -> None:
        """What the attempts at a row brought; those that failed for other reasons are not among them."""
        ...

    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        ...


class Fixed:
    """Base of curricula that learn nothing: a choice is a function of its number alone."""

    adapts = False

    def feedback(self, row: int, rewards: Sequence[float]) -> None:
        """Nothing to learn."""

    def state(self) -> dict[str, Any]:
        """Nothing to remember."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Nothing to restore."""


def generator(seed: int, *path: int | str) -> np.random.RandomState:
    """A generator for a named purpose, independent for every distinct path.

    numpy's legacy one: its streams do not change between versions, so a run can be resumed after an upgrade.
    """
    word = derive_seed(seed, *path)
    return np.random.RandomState([word % 2**32, word >> 32])


class Epochs:
    """Orders of a set by epoch, of which the newest few are kept: groups of two epochs can be in flight at once."""

    _KEPT = 2

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._seed = seed
        self._orders: dict[int, NDArray[np.int64]] = {}

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The random order of one epoch."""
        if epoch not in self._orders:
            while len(self._orders) >= self._KEPT:
                del self._orders[min(self._orders)]
            self._orders[epoch] = generator(self._seed, "epoch", epoch).permutation(self._count)
        return self._orders[epoch]


def difficulties_of(rows: Rows) -> NDArray[np.float64] | None:
    """The difficulty of each row, `[n]`; None when not every row has one."""
    numbers = [as_number(row.get(DIFFICULTY)) for row in rows]
    return None if None in numbers else np.array(numbers, np.float64)


def levels_of(difficulties: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Which of `count` equal parts each row is in, `[n]`; rows of the same difficulty are in the same."""
    easier = np.searchsorted(np.sort(difficulties), difficulties, side="left")
    return easier * count // len(difficulties)


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
        difficulties = difficulties_of(rows)
        if difficulties is None:
            need = f"order easy_to_hard needs a number {DIFFICULTY!r} in every row"
            raise ConfigError(f"{need}; the processor score_difficulty makes it")
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


LEVELS = 10
PRIOR = 2.0
"""Attempts that the belief about a row's level is worth."""


class Adaptive:
    """Tasks that are neither too easy nor too hard for the policy as it is now: steers for a target rate of success.

    About each row there is a belief, a Beta distribution of the rate at which the policy solves it:

        Beta(2 m + successes, 2 (1 - m) + failures)      m: the rate among all rows of the same level of difficulty

    Successes and failures fade with a half-life counted in groups, because the policy changes; so a row that was too
    hard is tried again some day. Rows that were never tried are believed to be like others of their level (a tenth of
    the set by `difficulty`; without that, all rows are one level), which is what makes the beliefs useful in sets that
    are larger than the run. A group draws a rate from the belief of each of its candidates and takes the one nearest to
    the target (Thompson sampling, as BOTS, arXiv 2510.26374, whose implicit evidence the levels stand for).

    Candidates of successive groups are successive parts of a random order of the set, so groups in flight at the same
    time differ, and every row is a candidate about once per sweep.

    Invariant: a choice is a function of (seed, number, beliefs). `state` has the beliefs exactly, bounded in number.
    """

    adapts = True

    def __init__(self, config: AdaptiveConfig, rows: Rows, seed: int) -> None:
        self._config = config
        self._seed = seed
        difficulties = difficulties_of(rows)
        self._level = np.zeros(len(rows), np.int64) if difficulties is None else levels_of(difficulties, LEVELS)
        self._candidates = min(config.candidates, len(rows))
        self._sweep = len(rows) // self._candidates
        self._epochs = Epochs(len(rows), seed)
        self._of_rows = Evidence(config.half_life)
        self._of_levels = Evidence(config.half_life)
        self._groups = 0
        """Groups that gave feedback: the clock by which evidence fades."""

    def choose(self, number: int) -> int:
        """The candidate whose drawn rate is nearest to the target."""
        sweep, part = divmod(number, self._sweep)
        candidates = self._epochs.order(sweep)[part * self._candidates : (part + 1) * self._candidates]
        beliefs = np.array([self.belief(int(row)) for row in candidates])
        drawn = generator(self._seed, "adaptive", number).beta(beliefs[:, 0], beliefs[:, 1])
        return int(candidates[np.argmin(np.abs(drawn - self._config.target))])

    def feedback(self, row: int, rewards: Sequence[float]) -> None:
        """Learn from the attempts of one group."""
        if not rewards:
            return
        low, high = self._config.lowest, self._config.highest
        successes = float(np.clip((np.array(rewards, np.float64) - low) / (high - low), 0.0, 1.0).sum())
        self._groups += 1
        self._of_rows.add(row, successes, len(rewards) - successes, self._groups)
        self._of_levels.add(int(self._level[row]), successes, len(rewards) - successes, self._groups)

    def belief(self, row: int) -> tuple[float, float]:
        """The two parameters of the Beta distribution of a row's rate of success."""
        successes, failures = self._of_levels.at(int(self._level[row]), self._groups)
        rate = (1.0 + successes) / (2.0 + successes + failures)
        successes, failures = self._of_rows.at(row, self._groups)
        return PRIOR * rate + successes, PRIOR * (1.0 - rate) + failures

    def state(self) -> dict[str, Any]:
        """The beliefs."""
        return {"groups": self._groups, "rows": self._of_rows.state(), "levels": self._of_levels.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take the beliefs back."""
        try:
            self._groups = int(state["groups"])
            self._of_rows.load_state(state["rows"], most_key=len(self._level))
            self._of_levels.load_state(state["levels"], most_key=LEVELS)
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"the saved beliefs about tasks cannot be read: {error!r}") from error


CurriculumFactory = Callable[..., Curriculum]

OWN: Registry[CurriculumFactory] = Registry("curriculum", "ludus.curricula")


def register_curriculum(name: str, factory: CurriculumFactory) -> None:
    """Make a curriculum known under a name; it is made as `factory(rows, seed, **options)`."""
    OWN.add(name, factory)


def make_curriculum(config: Any, rows: Rows, seed: int) -> Curriculum:
    """The curriculum that a config asks for. Raises ConfigError if there is none, or the rows lack what it goes by."""
    return CURRICULA[config.kind](config, rows, seed)


def _make_custom(config: CustomOrderConfig, rows: Rows, seed: int) -> Curriculum:
    factory = OWN.find(config.name)
    try:
        made = factory(rows, seed, **config.options)
    except Exception as error:  # a user's code
        raise ConfigError(f"curriculum {config.name}: {in_words(error)}") from error
    if not isinstance(made, Curriculum):
        raise ConfigError(f"curriculum {config.name}: it lacks adapts, choose, feedback, state or load_state")
    return made


CURRICULA: dict[str, Callable[[Any, Rows, int], Curriculum]] = {
    "sequential": Sequential,
    "shuffle": Shuffle,
    "random": Random,
    "easy_to_hard": EasyToHard,
    "adaptive": Adaptive,
    "custom": _make_custom,
}
