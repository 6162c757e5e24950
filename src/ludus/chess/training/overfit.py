"""Training on one batch until it is learnt: shows that a network, its losses and its optimizer work at all.

No network can do better than the lower bounds: a cross-entropy cannot fall below the entropy of its targets (of equal
positions: below that of their mean), other losses not below 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ludus.chess.learner import ChessBatch
from ludus.chess.losses import VALUE_ROWS, build_terms
from ludus.chess.training.subject import Subject, next_batch
from ludus.config import TermConfig, TrainConfig

Array = NDArray[Any]


class Step(NamedTuple):
    """Losses after so many optimizer steps."""

    step: int
    losses: dict[str, float]
    above: dict[str, float]
    """How far each is above its lower bound."""
    skipped: bool


def overfit(
    subject: Subject, *, positions: int, steps: int, learning_rate: float | None, seed: int
) -> Iterator[tuple[dict[str, float], Step]]:
    """Bounds and losses, before each step and after the last."""
    train = trial(subject.config.train, positions, learning_rate)
    learner = subject.learner(train)
    with subject.loader(positions, seed) as loader:
        batch = ChessBatch(*(np.array(tensor) for tensor in next_batch(loader)))
    state = subject.state(learner, seed)
    bounds = lower_bounds(batch, train.algorithm.objective or ())
    for step in range(steps + 1):
        state, metrics = learner.train_batch(state, batch)
        losses = {name: metrics[name] for name in bounds}
        skipped = bool(metrics["skipped"])
        yield bounds, Step(step, losses, {name: losses[name] - bounds[name] for name in bounds}, skipped)


def trial(train: TrainConfig, minibatch: int, learning_rate: float | None) -> TrainConfig:
    """The same training on minibatches of this size, at one rate, without decay and averages."""
    optimizer = train.optimizer.model_copy(
        update={
            "learning_rate": learning_rate or train.optimizer.learning_rate,
            "schedule": "constant",
            "warmup_fraction": 0.0,
            "pieces": (),
            "weight_decay": 0.0,
        }
    )
    terms = tuple(term.model_copy(update={"weight_end": None}) for term in train.algorithm.objective or ())
    algorithm = train.algorithm.model_copy(update={"objective": terms})
    changes = {"minibatch": minibatch, "accumulate": 1, "epochs": 1, "swa": None}
    return train.model_copy(update={**changes, "optimizer": optimizer, "algorithm": algorithm})


def lower_bounds(batch: ChessBatch, objective: tuple[TermConfig, ...]) -> dict[str, float]:
    """What each loss can at best fall to on this batch."""
    groups = _groups(np.asarray(batch.planes))
    return {term.name: _bound(term.options, term.loss.__name__, batch, groups) for term in build_terms(objective)}


def _bound(options: dict[str, Any], loss: str, batch: ChessBatch, groups: Array) -> float:
    if loss == "policy" and options.get("strength") is None:
        shares = np.asarray(batch.policy, np.float64)
        known = ~np.isnan(shares).any(axis=1) & (np.maximum(shares, 0).sum(axis=1) > 0)
        powered = np.where(shares > 0, np.where(shares > 0, shares, 1) ** (1 / options.get("temperature", 1.0)), 0)
        bound = _cross_entropy(powered[known], groups[known])
        return bound - (_cross_entropy(powered[known], None) if options.get("kind") == "kl" else 0.0)
    if loss == "value":
        q, d = np.asarray(batch.values, np.float64)[:, VALUE_ROWS.index(options.get("target", "result")), :2].T
        known = np.isfinite(q) & np.isfinite(d)
        wdl = np.maximum(np.stack([(1 - d + q) / 2, d, (1 - d - q) / 2], axis=1), 0)
        return _cross_entropy(wdl[known], groups[known])
    return 0.0


def _cross_entropy(targets: Array, groups: Array | None) -> float:
    """Mean cross-entropy of targets to the mean of their group, or to themselves."""
    if not len(targets):
        return 0.0
    targets = targets / np.maximum(targets.sum(axis=1, keepdims=True), 1e-12)
    best = targets
    if groups is not None:
        _, index, counts = np.unique(groups, return_inverse=True, return_counts=True)
        sums = np.zeros((len(counts), targets.shape[1]))
        np.add.at(sums, index, targets)
        best = (sums / counts[:, None])[index]
    logs = np.log(np.where(targets > 0, np.where(best > 0, best, 1), 1))
    return abs(float((targets * logs).sum(axis=1).mean()))


def _groups(planes: Array) -> Array:
    """A number for each position; equal positions have the same."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(row.tobytes(), len(seen)) for row in planes])
