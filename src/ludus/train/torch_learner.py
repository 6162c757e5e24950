"""The PyTorch learner: epochs of shuffled minibatches of token sequences, for language models.

Invariants:

- Only tokens that the policy sampled count. A minibatch's gradient does not depend on how it is cut into parts or
  shared by trainers (to rounding): every part is normalised by the whole.
- A minibatch whose loss or gradient is not finite leaves weights and optimizer as they were, and is counted.
- With the same state, experience, seed and progress, the same bits come out (CPU, one thread).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ludus.config import LoraConfig, TrainConfig, needs_critic
from ludus.errors import ConfigError, TrainError
from ludus.lm.language_models import LanguageModel
from ludus.records import Experiences
from ludus.train.aggregation import build_aggregation, token_mean
from ludus.train.importance import MISMATCH_TOTALS, mismatch_totals
from ludus.train.losses import LossInputs, kl
from ludus.train.minibatch_scales import MetricNames, Whole
from ludus.train.objective import build_objective, rows_of
from ludus.train.process_memory import keep_freed_memory
from ludus.train.reducers import Alone, Reducer, add_up_totals, share
from ludus.train.sources import keep_pairs_whole
from ludus.train.token_metrics import Floats, Walk, added
from ludus.train.token_rows import Ints, minibatches, normalised, own_elements, trainable_rows
from ludus.train.torch_credit import Credit
from ludus.train.torch_decoder import build_forward
from ludus.train.torch_optimizer import MOMENTS, init_moments, learning_rate, step
from ludus.train.torch_scoring import Scorer
from ludus.train.torch_state import Tensors, TorchState, state_from_tensors, state_tensors
from ludus.train.torch_teacher import Teacher
from ludus.train.torch_weights import Layout, Leaves
from ludus.train.trained_weights import init_weights, weight_shapes

__all__ = ["TorchLearner", "TorchState"]

Totals = dict[str, torch.Tensor]

MICRO_BATCH = {"cpu": 2048, "cuda": 16384}
"""Tokens computed at once by default: a CPU's caches are small, a GPU wants work."""


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
    ) -> None:
        keep_freed_memory()
        if train.algorithm.advantage is None or train.algorithm.objective is None:
            raise ConfigError("train.algorithm: not resolved; advantage and objective must be given")
        self.has_critic = needs_critic(train.algorithm)
        self._model, self._lora, self._train = model, lora, train
        self._reducer = Alone() if reducer is None else reducer
        self._advantage, self._device = train.algorithm.advantage, model.model.device
        self._objective = build_objective(train.algorithm.objective, build_aggregation(train), mu=train.algorithm.mu)
        self._corrects = self._objective.uses("importance", "truncate", "mask")
        self._forward = build_forward(
            model.model, context=model.context, lora=lora, checkpointing=train.activation_checkpointing
        )
        self._scorer = Scorer(
            self._forward, self._reducer, temperature=temperature, by_game=by_game, device=self._device
        )
        self._credit = Credit(train, self._objective, self._scorer, teacher)
        self._names = MetricNames(self._objective, critic=self.has_critic)
        self._layout = Layout(weight_shapes(model, lora, critic=self.has_critic), self._forward.fused)
        self._vocabulary = int(model.model.get_input_embeddings().weight.shape[0])  # type: ignore[index]
        self._leaves: Leaves | None = None

    # -- state -----------------------------------------------------------------------------------------------------

    def init(self, seed: int) -> TorchState:
        """Fresh adapters (or the model's own parameters), a critic that says 0, and a fresh optimizer."""
        beginning = init_weights(self._model, self._lora, critic=self.has_critic, seed=seed)
        vector = self._layout.pack(beginning, self._device)
        return TorchState(vector=vector, moments=init_moments(self._train.optimizer, vector))

    def state_tensors(self, state: TorchState) -> dict[str, Tensors]:
        """The state as NumPy arrays by name, in the parts `weights` and `optimizer`."""
        return state_tensors(state, self._layout)

    def state_from_tensors(self, tensors: Mapping[str, Mapping[str, NDArray[Any]]]) -> TorchState:
        """The state that `state_tensors` wrote, bit for bit; refuses tensors of another model or optimizer."""
        return state_from_tensors(tensors, self._layout, MOMENTS[self._train.optimizer.kind], self._device)

    def _leaves_of(self, state: TorchState) -> Leaves:
        if self._leaves is None or self._leaves.vector is not state.vector:
            self._leaves = Leaves(self._layout, state.vector)
        return self._leaves

    # -- an update -------------------------------------------------------------------------------------------------

    def train_batch(
        self, state: TorchState, experiences: Experiences, seed: int, progress: float
    ) -> tuple[TorchState, Floats]:
        """Train on token sequences. The state is changed in place and given back.

        Raises:
            TrainError: the sequences are not this model's, or too many steps in a row were skipped.
        """
        rows = trainable_rows(experiences, vocabulary=self._vocabulary, context=self._model.context)
        leaves, walk = self._leaves_of(state), Walk()
        try:
            rows, figures = self._credit(rows, leaves, self._tokens(rows))
            figures |= self._objective.schedule(progress)
            labels = {name: rows.sequences.get(name) for name in ("source", "pair")}
            count, size = len(rows), self._train.minibatch
            for chosen in minibatches(count, size, epochs=self._train.epochs, seed=seed, **labels):
                self._step(state, leaves, walk, rows.take(chosen), progress)
                if walk.stopped:
                    break
        finally:
            self._forward.release()
        rate = learning_rate(self._train.optimizer, progress)
        metrics = walk.report(rows, figures, skipped_in_a_row=state.skipped, learning_rate=rate, critic=self.has_critic)
        self.check_health(metrics)
        return state, metrics

    def check_health(self, metrics: Mapping[str, float]) -> None:
        """Refuse to go on when too many steps in a row were skipped."""
        in_a_row = int(metrics["skipped_in_a_row"])
        if in_a_row >= self._train.max_skipped:
            raise TrainError(
                f"the last {in_a_row} optimizer steps were skipped because loss or gradient was not finite; "
                f"lower train.optimizer.learning_rate, or look for extreme rewards"
            )

    def _step(self, state: TorchState, leaves: Leaves, walk: Walk, part: Experiences, progress: float) -> None:
        """One optimizer step, or none."""
        metrics = self._gradient(leaves, walk, part, progress)
        gradient, kl_stop = leaves.gradient, self._train.algorithm.kl_stop
        norm = float(torch.linalg.vector_norm(gradient))
        if not (np.isfinite(norm) and np.isfinite(metrics["loss"])):
            walk.skipped, state.skipped = walk.skipped + 1, state.skipped + 1
            return
        if kl_stop is not None and metrics.get("approx_kl", 0.0) > kl_stop:
            walk.stopped = True
            return
        if (limit := self._train.optimizer.max_grad_norm) is not None and norm > limit:
            gradient.mul_(limit / norm)
        state.steps, state.skipped = state.steps + 1, 0
        rate = learning_rate(self._train.optimizer, progress)
        step(self._train.optimizer, state.vector, gradient, state.moments, number=state.steps, rate=rate)
        walk.add({**metrics, "grad_norm": norm})

    def _gradient(self, leaves: Leaves, walk: Walk, part: Experiences, progress: float) -> Floats:
        """Leave the minibatch's gradient in the leaves; its metrics."""
        if self._advantage.normalise:
            advantage = normalised(part.steps["advantage"], own_elements(part))
            part = part.replace(steps={"advantage": advantage})
        whole = Whole.of(part, self._objective)
        leaves.clear_gradient()
        totals: Totals = {}
        apart: Totals = {}
        for rows in share(self._parts(part), self._reducer):
            inputs = self._inputs(part.take(rows), leaves)
            loss, metrics = self._loss(inputs, progress, whole)
            loss.backward()  # type: ignore[no-untyped-call]
            totals = added(totals, {name: value.detach() for name, value in metrics.items()})
            own = rows_of("on_policy", inputs.mask, inputs.source)
            apart = added(apart, mismatch_totals(inputs.logp, inputs.old_logp, own))
        self._reducer.add_up(leaves.gradient)
        if not walk.taken:
            walk.apart = added(walk.apart, add_up_totals(apart, MISMATCH_TOTALS, self._reducer))
        found = add_up_totals(totals, self._names.every, self._reducer)
        return {name: value for name, value in found.items() if name not in self._names.missing(whole)}

    def _parts(self, part: Experiences) -> list[Ints]:
        """A minibatch in pieces that are computed at once; a pair is never cut."""
        tokens, pair = self._tokens(part), part.sequences.get("pair")
        if pair is None:
            return self._scorer.parts(part, tokens)
        return keep_pairs_whole(self._scorer.parts(part, max(1, tokens // 2)), pair)

    def _tokens(self, rows: Experiences) -> int:
        """Tokens to compute at once: few enough that every trainer has a part, if that can be."""
        most = self._train.tokens_per_micro_batch or MICRO_BATCH.get(self._device.type, MICRO_BATCH["cuda"])
        return min(most, -(-rows.step_count // self._reducer.size))

    def _inputs(self, piece: Experiences, leaves: Leaves) -> LossInputs:
        inputs = self._scorer.inputs(piece, leaves)
        if inputs.start_logp is None and self._corrects:
            return replace(inputs, start_logp=inputs.logp.detach())
        return inputs

    def _loss(self, inputs: LossInputs, progress: float, whole: Whole) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss, metrics = self._objective(inputs, progress, whole.scales)
        own = rows_of("on_policy", inputs.mask, inputs.source)
        metrics["entropy"] = token_mean.total(inputs.entropy, own) / (whole.own or 1.0)
        if "approx_kl" not in metrics:
            metrics["approx_kl"] = token_mean.total(kl(inputs.old_logp, inputs.logp).loss, own) / (whole.own or 1.0)
        return loss, {**metrics, "loss": loss}
