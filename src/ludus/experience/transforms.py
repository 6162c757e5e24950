"""The reward transforms that come with ludus. Each is a small class with `apply`; see `phases.py` for what it is given.

Add your own with `register_transform(phase, name, factory)` and name it in the config as `{kind: custom, name: …}`.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from ludus.experience.transform_phases import Stateless, Values, decisions
from ludus.records import Experiences

EPSILON = 1e-8


class RoleAdvantage:
    """Subtract what this seat usually gets in this game: a moving average, read before it is updated.

    Per (game, seat): `advantage = r - b`, then `b = decay * b + (1 - decay) * r`, with `b` 0 at first. Sequences are
    taken in the order of (task, attempt, seat), whatever their order in the batch, each after the other.
    """

    def __init__(self, decay: float = 0.95) -> None:
        self.decay = decay
        self.baselines: dict[tuple[str, int], float] = {}

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """Advantages, `[n]`."""
        columns = experiences.sequences
        order = np.lexsort((columns["seat"], columns["attempt"], columns["task"]))
        rows_by_role: dict[tuple[str, int], list[int]] = {}
        games, seats = columns["game"].tolist(), columns["seat"].tolist()
        for row in order.tolist():
            rows_by_role.setdefault((games[row], seats[row]), []).append(row)
        advantages = np.empty_like(values)
        for role, rows in rows_by_role.items():
            rewards = values[rows].tolist()
            *before, after = accumulate(rewards, self._move, initial=self.baselines.get(role, 0.0))
            advantages[rows] = values[rows] - before
            self.baselines[role] = after
        return advantages

    def state(self) -> dict[str, Any]:
        """The averages."""
        return {"baselines": [[game, seat, value] for (game, seat), value in sorted(self.baselines.items())]}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from saved averages."""
        self.baselines = {(game, seat): value for game, seat, value in state["baselines"]}

    def _move(self, baseline: float, reward: float) -> float:
        return self.decay * baseline + (1.0 - self.decay) * reward


class FormatReward(Stateless):
    """Add `reward` to each decision whose format was right and `penalty` to the others.

    Reads the step column `format_ok`. Games whose actions cannot be malformed do not have it; they are left alone.
    """

    def __init__(self, reward: float = 0.0, penalty: float = 0.0) -> None:
        self.reward = reward
        self.penalty = penalty

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """Rewards, `[N]`."""
        return _add_where(values, experiences, "format_ok", self.reward, self.penalty)


class InvalidMove(Stateless):
    """Add `penalty` to each decision that was an invalid move and `reward` to the others.

    Reads the step column `invalid`. Games that offer legal moves only do not have it; they are left alone.
    """

    def __init__(self, reward: float = 0.0, penalty: float = -1.0) -> None:
        self.reward = reward
        self.penalty = penalty

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """Rewards, `[N]`."""
        return _add_where(values, experiences, "invalid", self.penalty, self.reward)


class Normalise(Stateless):
    """Centre the totals of a batch; with `scale`, divide by their standard deviation too (0 stays 0)."""

    def __init__(self, scale: bool = False) -> None:
        self.scale = scale

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """Centred totals, `[n]`."""
        return _normalised(values, self.scale)


class NormaliseByGame(Stateless):
    """As `Normalise`, for each game of the batch on its own."""

    def __init__(self, scale: bool = False) -> None:
        self.scale = scale

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """Centred totals, `[n]`."""
        result = np.empty_like(values)
        games = experiences.sequences["game"].tolist()
        for game in dict.fromkeys(games):
            rows = [row for row, other in enumerate(games) if other == game]
            result[rows] = _normalised(values[rows], self.scale)
        return result


def _normalised(values: Values, scale: bool) -> Values:
    if not len(values) or values.min() == values.max():
        # Exactly 0: the mean of equal numbers can differ from them by rounding, which a tiny deviation would blow up.
        return np.zeros_like(values)
    centred: Values = values - values.mean()
    # The epsilon belongs inside the division: added to the quotient it would shift every value instead.
    scaled: Values = centred / (centred.std() + EPSILON)
    return scaled if scale else centred


def _add_where(values: Values, experiences: Experiences, column: str, when_true: float, when_false: float) -> Values:
    holds = experiences.steps.get(column)
    if holds is None:
        return values
    return values + np.where(decisions(experiences), np.where(holds.astype(np.bool_), when_true, when_false), 0.0)
