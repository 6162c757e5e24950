"""A teacher: what another language model thinks of the tokens that the policy sampled (on-policy distillation).

Invariant: it is scored as the policy is, at the temperature at which the tokens were sampled, and never trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ludus.errors import ConfigError, TrainError
from ludus.lm.adapters import adapter_shapes, check_adapter
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.language_shape import ADAPTER
from ludus.lm.teachers import TeacherModel
from ludus.records import Experiences
from ludus.storage.tensors import load_tensors
from ludus.train.torch_decoder import build_forward
from ludus.train.torch_scoring import Reducer, Scorer
from ludus.train.torch_state import Layout, Leaves


class Teacher:
    """A model with its adapters, if it has any. Each of several trainers holds one and scores its share."""

    def __init__(
        self,
        source: TeacherModel,
        *,
        context: int,
        temperature: float = 1.0,
        by_game: Mapping[str, float] | None = None,
        reducer: Reducer | None = None,
    ) -> None:
        """`context`: tokens that the policy's conversations may have."""
        loaded = _load(source, context)
        lora, device = source.model.lora, loaded.model.device
        self._path = source.model.path
        self._vocabulary = loaded.vocabulary
        self._forward = build_forward(loaded.model, context=loaded.context, lora=lora)
        self._scorer = Scorer(
            self._forward, reducer or Reducer(), temperature=temperature, by_game=by_game, device=device
        )
        self._weights: Leaves | None = None
        if lora is not None:
            tensors = load_tensors(Path(source.adapter) / ADAPTER)
            check_adapter(tensors, loaded.model, lora)
            layout = Layout(adapter_shapes(loaded.model, lora), self._forward.fused)
            self._weights = Leaves(layout, layout.pack(tensors, device))

    def logp(self, rows: Experiences, tokens: int) -> NDArray[np.float32]:
        """Log-probability `[N]` of every token that the policy sampled, so many computed at once; 0 elsewhere.

        Raises TrainError for a token that the teacher does not have.
        """
        if len(rows) and (highest := int(rows.steps["action"].max())) >= self._vocabulary:
            raise TrainError(f"the teacher {self._path} does not know token {highest}; it has {self._vocabulary}")
        try:
            return self._scorer.evaluate(rows, self._weights, tokens)[0]
        finally:
            self._forward.release()


def _load(source: TeacherModel, context: int) -> LanguageModel:
    try:
        return load_language_model(source.model.model_copy(update={"context": context}), speaks=False)
    except ConfigError as error:
        raise ConfigError(*(f"policy.teacher: {problem}" for problem in error.problems)) from error
