"""What every learner of a language model does in an update: epochs of shuffled minibatches of token sequences.

Where its weights are is a subclass's business: in one vector (`TorchLearner`), or in shards (`ShardedLearner`).

Invariants:

- Only tokens that the policy sampled count.
- A minibatch whose loss or gradient is not finite leaves weights and optimizer as they were, and is counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch

from ludus.config import TrainConfig, needs_critic
from ludus.errors import ConfigError
from ludus.lm.language_models import LanguageModel
from ludus.records import Experiences
from ludus.train.aggregation import build_aggregation
from ludus.train.health import checked, not_finite_row
from ludus.train.objective import build_objective
from ludus.train.reducer import Reducer
from ludus.train.token_rows import minibatches, trainable_rows
from ludus.train.torch_credit import Credit, Teacher
from ludus.train.torch_forward import Forward
from ludus.train.torch_gradient import Floats, TokenGradient, UpdateTotals, added
from ludus.train.torch_scoring import Scorer
from ludus.train.torch_state import TrainedWeights, learning_rate
from ludus.train.tracing import Tracer


def compares_with_base(train: TrainConfig) -> bool:
    """Whether anything of an update looks at the base model."""
    algorithm = train.algorithm
    objective = build_objective(algorithm.objective or (), build_aggregation(train), mu=algorithm.mu)
    return bool(objective.needs_reference) or algorithm.kl_reward is not None


class Counted(Protocol):
    """A state that counts its optimizer steps."""

    steps: int
    skipped: int


StateT = TypeVar("StateT", bound=Counted)


class TokenLearner(ABC, Generic[StateT]):
    """Trains a language model by a resolved `TrainConfig` (with `advantage` and `objective` filled in)."""

    def __init__(
        self,
        model: LanguageModel,
        train: TrainConfig,
        *,
        forward: Forward,
        temperature: float,
        by_game: Mapping[str, float] | None,
        reducer: Reducer,
        teacher: Teacher | None,
        device: torch.device,
        has_server: bool = False,
    ) -> None:
        if train.algorithm.advantage is None or train.algorithm.objective is None:
            raise ConfigError("train.algorithm: not resolved; advantage and objective must be given")
        self.has_critic = needs_critic(train.algorithm)
        self._model, self._train = model, train
        objective = build_objective(train.algorithm.objective, build_aggregation(train), mu=train.algorithm.mu)
        self._schedule = objective.schedule
        self._forward = forward
        scorer = Scorer(forward, reducer, temperature=temperature, by_game=by_game, device=device)
        self._credit = Credit(train, objective, scorer, teacher, values_here=has_server and self.has_critic)
        self._gradient = TokenGradient(train, objective, scorer, reducer, critic=self.has_critic, device=device.type)

    @abstractmethod
    def _weights_of(self, state: StateT) -> TrainedWeights:
        """The weights of a state, with room for a gradient."""

    @abstractmethod
    def _descend(self, state: StateT, weights: TrainedWeights, progress: float) -> None:
        """One optimizer step, which `state.steps` counts already."""

    def train_batch(self, state: StateT, experiences: Experiences, seed: int, progress: float) -> tuple[StateT, Floats]:
        """Train on token sequences. The state is changed in place and given back. Refuses another model's sequences."""
        rows = trainable_rows(experiences, vocabulary=self._model.vocabulary, context=self._model.context)
        weights, totals = self._weights_of(state), UpdateTotals()
        try:
            rows, figures = self._credit(rows, weights, self._gradient.tokens_at_once(rows))
            figures |= self._schedule(progress)
            labels = {name: rows.sequences.get(name) for name in ("source", "pair")}
            count, size = len(rows), self._train.minibatch
            for chosen in minibatches(count, size, epochs=self._train.epochs, seed=seed, **labels):
                self._step(state, weights, totals, rows.take(chosen), progress)
                if totals.stopped:
                    break
        finally:
            self._forward.release()
        rate = learning_rate(self._train.optimizer, progress)
        metrics = totals.report(
            rows, figures, skipped_in_a_row=state.skipped, learning_rate=rate, critic=self.has_critic
        )
        return state, checked(metrics, self._train, lambda: not_finite_row(rows.steps, rows.steps["mask"]))

    def trace_by(self, tracer: Tracer) -> None:
        """Let somebody see what the weights think of each batch before the first step."""
        self._credit.tracer = tracer

    def _step(
        self, state: StateT, weights: TrainedWeights, totals: UpdateTotals, part: Experiences, progress: float
    ) -> None:
        """One optimizer step, or none."""
        metrics, apart = self._gradient(weights, part, progress, compares=not totals.taken)
        totals.apart = added(totals.apart, apart)
        kl_stop = self._train.algorithm.kl_stop
        norm = weights.gradient_norm()
        if not (np.isfinite(norm) and np.isfinite(metrics["loss"])):
            totals.skipped, state.skipped = totals.skipped + 1, state.skipped + 1
            totals.flagged = [name for name, value in metrics.items() if not np.isfinite(value)]
            return
        if kl_stop is not None and metrics.get("approx_kl", 0.0) > kl_stop:
            totals.stopped = True
            return
        if (limit := self._train.optimizer.max_grad_norm) is not None and norm > limit:
            weights.scale_gradient(limit / norm)
        state.steps, state.skipped = state.steps + 1, 0
        self._descend(state, weights, progress)
        totals.add({**metrics, "grad_norm": norm})
