"""Tasks that are neither too easy nor too hard for the policy as it is now.

About each row there is a belief, a Beta distribution of the rate at which the policy solves it:

    Beta(2 m + successes, 2 (1 - m) + failures)      m: the rate among all rows of the same level of difficulty

Successes and failures fade with a half-life counted in groups, because the policy changes; so a row that was too hard
is tried again some day. Rows that were never tried are believed to be like others of their level (a tenth of the set by
`difficulty`; without that, all rows are one level), which is what makes the beliefs useful in sets that are larger than
the run. A group draws a rate from the belief of each of its candidates and takes the one nearest to the target
(Thompson sampling, as BOTS, arXiv 2510.26374, whose implicit evidence the levels stand for).

Candidates of successive groups are successive parts of a random order of the set, so groups in flight at the same time
differ, and every row is a candidate about once per sweep.

Invariant: a choice is a function of (seed, number, beliefs), and `state` has the beliefs exactly, bounded in number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ludus.config import AdaptiveConfig
from ludus.errors import StorageError
from ludus.tasks.curricula.chance import Epochs, generator
from ludus.tasks.curricula.difficulty import difficulties_of, levels_of
from ludus.tasks.curricula.evidence import Evidence
from ludus.tasks.curricula.protocol import Rows

LEVELS = 10
PRIOR = 2.0
"""Attempts that the belief about a row's level is worth."""


class Adaptive:
    """Steers for a target rate of success."""

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
