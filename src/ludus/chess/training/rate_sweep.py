"""Learning-rate range test: the rate grows exponentially from step to step while the network trains.

While the rate is too low, the loss hardly falls; then it falls; beyond the largest useful rate it rises and diverges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import NamedTuple

import numpy as np

from ludus.chess.training.overfit import trial
from ludus.chess.training.subject import Subject, next_batch
from ludus.errors import TrainError

_WARM_UP = 0.5
"""The learner's rate rises in proportion to this share of its run, which we choose: no rate needs a new program."""
_SMOOTHING = 0.9
_DIVERGED = 4.0
"""Times the lowest smoothed loss so far."""
_MARGIN = 10.0


class Point(NamedTuple):
    """One step of a sweep."""

    rate: float
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What a sweep says."""

    rate: float
    lowest: float
    """Where the smoothed loss was lowest."""
    diverged: float | None
    """Where it went up for good."""
    smooth: list[float]
    """The loss over the steps, averaged with its neighbours."""


def sweep(subject: Subject, *, low: float, high: float, steps: int, minibatch: int, seed: int) -> Iterator[Point]:
    """Train with rates from `low` to `high`; ends early where the loss diverges."""
    train = trial(subject.config.train, minibatch, high)
    train = train.model_copy(update={"optimizer": train.optimizer.model_copy(update={"warmup_fraction": _WARM_UP})})
    learner = subject.learner(train)
    state = subject.state(learner, seed)
    mean, lowest = 0.0, float("inf")
    with subject.loader(minibatch, seed) as loader:
        for step in range(steps):
            rate = low * (high / low) ** (step / max(steps - 1, 1))
            try:
                state, metrics = learner.train_batch(state, next_batch(loader), progress=_WARM_UP * rate / high)
            except TrainError:
                return
            loss = metrics["loss"] if not metrics["skipped"] else float("inf")
            if not isfinite(loss):
                return
            mean = _SMOOTHING * mean + (1 - _SMOOTHING) * loss
            recent = mean / (1 - _SMOOTHING ** (step + 1))
            lowest = min(lowest, recent)
            yield Point(rate, loss)
            if recent > _DIVERGED * lowest:
                return


def suggest(points: Sequence[Point], *, high: float) -> Suggestion:
    """A tenth of the rate with the lowest loss.

    Raises:
        TrainError: the loss never fell.
    """
    smooth = smoothed([point.loss for point in points])
    best = int(np.argmin(smooth)) if smooth else 0
    begun = max(2, len(points) // 10)
    if best < begun or smooth[best] > 0.999 * float(np.mean(smooth[:begun])):
        raise TrainError("the loss did not fall at any rate; begin the sweep lower, or see whether `overfit` learns")
    lowest = points[best].rate
    is_cut = points[-1].rate < high * (1 - 1e-9)
    diverged = points[-1].rate if is_cut else None
    return Suggestion(rate=_rounded(lowest / _MARGIN), lowest=lowest, diverged=diverged, smooth=smooth)


def smoothed(losses: Sequence[float]) -> list[float]:
    """Means with a tenth of the sweep around each step; nearer steps count more."""
    reach = max(1, len(losses) // 10)
    weights = np.bartlett(2 * reach + 1)[1:-1] if reach > 1 else np.ones(1)
    sums = np.convolve(losses, weights, mode="same")
    return [float(each) for each in sums / np.convolve(np.ones(len(losses)), weights, mode="same")]


def _rounded(rate: float) -> float:
    """To one digit."""
    return round(rate, -floor(log10(rate)))
