"""The PyTorch learner: epochs of shuffled minibatches of token sequences, for language models.

Invariants:

- Only tokens that the policy sampled count.
- A minibatch whose loss or gradient is not finite leaves weights and optimizer as they were, and is counted.
- With the same state, experience, seed and progress, the same bits come out (CPU, one thread).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ludus.config import LoraConfig, TrainConfig, needs_critic
from ludus.errors import ConfigError
from ludus.lm.language_models import LanguageModel
from ludus.lm.probe import Probe, probe_tokens
from ludus.records import Experiences
from ludus.train.aggregation import build_aggregation
from ludus.train.health import checked, not_finite_row
from ludus.train.objective import build_objective
from ludus.train.token_rows import minibatches, targets_of, trainable_rows
from ludus.train.torch_credit import Credit, Teacher
from ludus.train.torch_forwards import build_forward
from ludus.train.torch_gradient import Floats, TokenGradient, UpdateTotals, added
from ludus.train.torch_scoring import Reducer, Scorer
from ludus.train.torch_state import (
    MOMENTS,
    Layout,
    Leaves,
    Tensors,
    TorchState,
    init_moments,
    init_weights,
    learning_rate,
    state_from_tensors,
    state_tensors,
    step,
    weight_shapes,
)
from ludus.train.tracing import Tracer

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""
_KEPT_BYTES = 1 << 30


class TorchLearner:
    """Trains a language model by a resolved `TrainConfig` (with `advantage` and `objective` filled in).

    Args:
        model: the base model; it stays as it is, and is the reference of a `kl` term with `reference: base`.
        train: how.
        lora: the adapters to train; None trains every parameter.
        temperature: at which tokens were sampled, and are scored.
        by_game: temperatures of games that are sampled at another.
        reducer: the other trainers, where there are any.
        teacher: whom the policy is to become like; for the advantage `distill`.
        has_server: whether an inference server writes: it gives no values, so that the critic's are computed before
            each update, and it is compared with the weights on a probe.
    """

    def __init__(
        self,
        model: LanguageModel,
        train: TrainConfig,
        *,
        lora: LoraConfig | None,
        temperature: float = 1.0,
        by_game: Mapping[str, float] | None = None,
        reducer: Reducer | None = None,
        teacher: Teacher | None = None,
        has_server: bool = False,
    ) -> None:
        _keep_freed_memory()
        if train.algorithm.advantage is None or train.algorithm.objective is None:
            raise ConfigError("train.algorithm: not resolved; advantage and objective must be given")
        self._has_server = has_server
        self.has_critic = needs_critic(train.algorithm)
        self._model, self._lora, self._train = model, lora, train
        reducer, device = reducer or Reducer(), model.model.device
        objective = build_objective(train.algorithm.objective, build_aggregation(train), mu=train.algorithm.mu)
        self._schedule = objective.schedule
        self._forward = build_forward(
            model.model,
            context=model.context,
            lora=lora,
            checkpointing=train.activation_checkpointing,
            kind=train.forward,
        )
        scorer = Scorer(self._forward, reducer, temperature=temperature, by_game=by_game, device=device)
        self._credit = Credit(train, objective, scorer, teacher, values_here=has_server and self.has_critic)
        self._gradient = TokenGradient(train, objective, scorer, reducer, critic=self.has_critic, device=device.type)
        self._layout = Layout(weight_shapes(model, lora, critic=self.has_critic), self._forward.fused)
        self._leaves: Leaves | None = None

    # -- state -----------------------------------------------------------------------------------------------------

    def init(self, seed: int) -> TorchState:
        """Fresh adapters (or the model's own parameters), a critic that says 0, and a fresh optimizer."""
        beginning = init_weights(self._model, self._lora, critic=self.has_critic, seed=seed)
        vector = self._layout.pack(beginning, self._model.model.device)
        return TorchState(vector=vector, moments=init_moments(self._train.optimizer, vector))

    def state_tensors(self, state: TorchState) -> dict[str, Tensors]:
        """The state as NumPy arrays by name, in the parts `weights` and `optimizer`."""
        return state_tensors(state, self._layout)

    def state_from_tensors(self, tensors: Mapping[str, Mapping[str, NDArray[Any]]]) -> TorchState:
        """The state that `state_tensors` wrote, bit for bit; refuses tensors of another model or optimizer."""
        moments = MOMENTS[self._train.optimizer.kind]
        return state_from_tensors(tensors, self._layout, moments, self._model.model.device)

    def _leaves_of(self, state: TorchState) -> Leaves:
        if self._leaves is None or self._leaves.vector is not state.vector:
            self._leaves = Leaves(self._layout, state.vector)
        return self._leaves

    # -- an update -------------------------------------------------------------------------------------------------

    def train_batch(
        self, state: TorchState, experiences: Experiences, seed: int, progress: float
    ) -> tuple[TorchState, Floats]:
        """Train on token sequences. The state is changed in place and given back. Refuses another model's sequences."""
        rows = trainable_rows(experiences, vocabulary=self._model.vocabulary, context=self._model.context)
        leaves, totals = self._leaves_of(state), UpdateTotals()
        try:
            rows, figures = self._credit(rows, leaves, self._gradient.tokens_at_once(rows))
            figures |= self._schedule(progress)
            labels = {name: rows.sequences.get(name) for name in ("source", "pair")}
            count, size = len(rows), self._train.minibatch
            for chosen in minibatches(count, size, epochs=self._train.epochs, seed=seed, **labels):
                self._step(state, leaves, totals, rows.take(chosen), progress)
                if totals.stopped:
                    break
        finally:
            self._forward.release()
        rate = learning_rate(self._train.optimizer, progress)
        metrics = totals.report(
            rows, figures, skipped_in_a_row=state.skipped, learning_rate=rate, critic=self.has_critic
        )
        return state, checked(metrics, self._train, lambda: not_finite_row(rows.steps, rows.steps["mask"]))

    @torch.no_grad()
    def probe(self, state: TorchState) -> dict[str, Any]:
        """What the weights think of the probe's tokens at temperature 1, as JSON; nothing where no server asks."""
        if not self._has_server:
            return {}
        tokens = probe_tokens(self._model.tokenizer)
        rows = Experiences(
            sequences={},
            offsets=np.array([0, len(tokens)]),
            steps={"action": np.array(tokens, np.int32), "mask": np.arange(len(tokens)) > 0},
        )
        try:
            scores = self._forward.score(rows, targets_of(rows), self._leaves_of(state), temperature=1.0)
        finally:
            self._forward.release()
        return Probe(tokens=tuple(tokens), logps=tuple(scores.logp.float().cpu().tolist())).to_json()

    def trace_by(self, tracer: Tracer) -> None:
        """Let somebody see what the weights think of each batch before the first step."""
        self._credit.tracer = tracer

    def _step(
        self, state: TorchState, leaves: Leaves, totals: UpdateTotals, part: Experiences, progress: float
    ) -> None:
        """One optimizer step, or none."""
        metrics, apart = self._gradient(leaves, part, progress, compares=not totals.taken)
        totals.apart = added(totals.apart, apart)
        gradient, kl_stop = leaves.gradient, self._train.algorithm.kl_stop
        norm = float(torch.linalg.vector_norm(gradient))
        if not (np.isfinite(norm) and np.isfinite(metrics["loss"])):
            totals.skipped, state.skipped = totals.skipped + 1, state.skipped + 1
            totals.flagged = [name for name, value in metrics.items() if not np.isfinite(value)]
            return
        if kl_stop is not None and metrics.get("approx_kl", 0.0) > kl_stop:
            totals.stopped = True
            return
        if (limit := self._train.optimizer.max_grad_norm) is not None and norm > limit:
            gradient.mul_(limit / norm)
        state.steps, state.skipped = state.steps + 1, 0
        rate = learning_rate(self._train.optimizer, progress)
        step(self._train.optimizer, state.vector, gradient, state.moments, number=state.steps, rate=rate)
        totals.add({**metrics, "grad_norm": norm})


@cache
def _keep_freed_memory() -> None:
    """Keep memory for the next tensor instead of giving it back to the system, where that can be said (glibc).

    An update allocates the same large tensors over and over; given back, each costs page faults anew: a twentieth of
    the time of a small model's update. The process stays as large as its largest update made it.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
