"""The PyTorch learner of a language model that is whole in this process: its state is one vector.

Invariant: with the same state, experience, seed and progress, the same bits come out (CPU, one thread).
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

from ludus.config import LoraConfig, TrainConfig
from ludus.lm.language_models import LanguageModel
from ludus.lm.probe import Probe, probe_tokens
from ludus.records import Experiences
from ludus.train.reducer import Reducer
from ludus.train.token_learner import TokenLearner
from ludus.train.token_rows import targets_of
from ludus.train.torch_credit import Teacher
from ludus.train.torch_forwards import build_forward
from ludus.train.torch_state import (
    MOMENTS,
    Layout,
    Leaves,
    Tensors,
    TorchState,
    TrainedWeights,
    descend,
    init_moments,
    init_weights,
    state_from_tensors,
    state_tensors,
    weight_shapes,
)

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""
_KEPT_BYTES = 1 << 30


class TorchLearner(TokenLearner[TorchState]):
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
        device = model.model.device
        forward = build_forward(
            model.model,
            context=model.context,
            lora=lora,
            checkpointing=train.activation_checkpointing,
            kind=train.forward,
        )
        super().__init__(
            model,
            train,
            forward=forward,
            temperature=temperature,
            by_game=by_game,
            reducer=reducer or Reducer(),
            teacher=teacher,
            device=device,
            has_server=has_server,
        )
        self._lora, self._has_server = lora, has_server
        self._layout = Layout(weight_shapes(model, lora, critic=self.has_critic), forward.fused)
        self._leaves: Leaves | None = None

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

    def _weights_of(self, state: TorchState) -> Leaves:
        if self._leaves is None or self._leaves.vector is not state.vector:
            self._leaves = Leaves(self._layout, state.vector)
        return self._leaves

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
            scores = self._forward.score(rows, targets_of(rows), self._weights_of(state), temperature=1.0)
        finally:
            self._forward.release()
        scored: dict[str, Any] = Probe(tokens=tuple(tokens), logps=tuple(scores.logp.float().cpu().tolist())).to_json()
        return scored

    def _descend(self, state: TorchState, weights: TrainedWeights, progress: float) -> None:
        descend(self._train.optimizer, state, self._weights_of(state), progress=progress)


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
