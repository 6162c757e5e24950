"""Reward transforms: where their values live in the columns, and those that come with ludus.

    phase      values it sees and returns                         called
    final      [n] total reward of each sequence                  once, when episodes arrive, in task order
    step       [N] reward of each element                         once, after `final`
    sampling   [n] shaped reward of each sequence of a batch      each time a batch is sampled

Invariant: what a `final` or `sampling` transform adds to a sequence's total is added to the reward of its last element
that the policy chose, so `sum(reward) - shaped_reward` never changes in these phases. `final_reward` is never touched.

Add your own with `register_transform(phase, name, factory)` and name it in the config as `{kind: custom, name: …}`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ludus.errors import ConfigError
from ludus.plugins import Registry
from ludus.records import Experiences

TransformPhase = Literal["final", "step", "sampling"]
Values = NDArray[np.float64]


@runtime_checkable
class Transform(Protocol):
    """Changes rewards. Stateless transforms return `{}` from `state` (inherit from `Stateless`)."""

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """New values of the same shape; neither argument is changed."""
        ...

    def state(self) -> dict[str, Any]:
        """JSON for the checkpoint. Called between batches."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned. Called before the first batch of a resumed run."""
        ...


class Stateless:
    """A transform that remembers nothing."""

    def state(self) -> dict[str, Any]:
        """Nothing to remember."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""


def set_totals(experiences: Experiences, totals: Values) -> Experiences:
    """Give each sequence a new `shaped_reward`, and its last chosen element the difference."""
    shaped = totals.astype(np.float32)
    reward = experiences.steps["reward"].copy()
    last = last_chosen(experiences)
    rows = np.flatnonzero(last >= 0)
    added = shaped.astype(np.float64) - experiences.sequences["shaped_reward"]
    reward[last[rows]] += added[rows].astype(np.float32)
    return experiences.replace(sequences={"shaped_reward": shaped}, steps={"reward": reward})


def last_chosen(experiences: Experiences) -> NDArray[np.int64]:
    """Index of the last element of each sequence that the policy chose, `[n]`; -1 where there is none."""
    chosen = np.flatnonzero(experiences.steps["mask"])
    before = np.searchsorted(chosen, experiences.offsets, side="left")
    last = np.full(len(experiences), -1, np.int64)
    rows = np.flatnonzero(before[1:] > before[:-1])
    last[rows] = chosen[before[1:][rows] - 1]
    return last


def decisions(experiences: Experiences) -> NDArray[np.bool_]:
    """Mask `[N]` of the elements that end a decision.

    On a board every chosen element is one. In a token sequence (no observation) a decision is a whole answer: the last
    of a run of chosen tokens ends it.
    """
    mask: NDArray[np.bool_] = experiences.steps["mask"]
    if "observation" in experiences.steps:
        return mask
    goes_on = np.append(mask[1:], False)
    goes_on[experiences.offsets[1:][experiences.lengths > 0] - 1] = False
    ends: NDArray[np.bool_] = mask & ~goes_on
    return ends


EPSILON = 1e-8


@dataclass
class RoleAdvantage:
    """Subtract what this seat usually gets in this game: a moving average, read before it is updated.

    Per (game, seat): `advantage = r - b`, then `b = decay * b + (1 - decay) * r`, with `b` 0 at first. Sequences are
    taken in the order of (task, attempt, seat), whatever their order in the batch, each after the other.
    """

    decay: float = 0.95
    baselines: dict[tuple[str, int], float] = field(default_factory=dict, init=False)

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


@dataclass
class FormatReward(Stateless):
    """Add `reward` to each decision whose format was right and `penalty` to the others.

    Reads the step column `format_ok`. Games whose actions cannot be malformed do not have it; they are left alone.
    """

    reward: float = 0.0
    penalty: float = 0.0

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """Rewards, `[N]`."""
        return _add_where(values, experiences, "format_ok", self.reward, self.penalty)


@dataclass
class InvalidMove(Stateless):
    """Add `penalty` to each decision that was an invalid move and `reward` to the others.

    Reads the step column `invalid`. Games that offer legal moves only do not have it; they are left alone.
    """

    reward: float = 0.0
    penalty: float = -1.0

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """Rewards, `[N]`."""
        return _add_where(values, experiences, "invalid", self.penalty, self.reward)


@dataclass
class Normalise(Stateless):
    """Centre the totals of a batch; with `scale`, divide by their standard deviation too (0 stays 0)."""

    scale: bool = False

    def apply(self, values: Values, experiences: Experiences) -> Values:
        """Centred totals, `[n]`."""
        return _normalised(values, self.scale)


class NormaliseByGame(Normalise):
    """As `Normalise`, for each game of the batch on its own."""

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


Factory = Callable[..., Transform]
"""Called with the transform's options as keyword arguments."""

TRANSFORMS: dict[TransformPhase, dict[str, Factory]] = {
    "final": {"role_advantage": RoleAdvantage},
    "step": {"format": FormatReward, "invalid_move": InvalidMove},
    "sampling": {"normalise": Normalise, "normalise_by_game": NormaliseByGame},
}

REGISTRIES: dict[TransformPhase, Registry[Factory]] = {
    phase: Registry(f"{phase} transform", "ludus.transforms", built_in=known) for phase, known in TRANSFORMS.items()
}


def register_transform(phase: TransformPhase, name: str, factory: Factory) -> None:
    """Make a transform available in `experience.<phase>` as `{kind: custom, name: <name>, options: {…}}`."""
    if phase not in TRANSFORMS:
        raise ConfigError(f"no phase {phase!r}; there are {', '.join(TRANSFORMS)}")
    REGISTRIES[phase].add(name, factory)
