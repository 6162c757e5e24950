"""What is known of token sequences before the first optimizer step of an update: advantages, and what others think.

Invariant: only on-policy rows are credited, and only they enter any statistic. Log-probabilities of base
and current weights are computed for the rows that a term compares with them, and 0 for others; a teacher's, for
on-policy rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ludus.config import GROUP_KINDS, AdvantageConfig, TrainConfig
from ludus.errors import ConfigError, TrainError
from ludus.lm.adapters import adapter_shapes, check_adapter
from ludus.lm.language_models import load_language_model
from ludus.lm.language_shape import ADAPTER
from ludus.lm.teachers import TeacherModel
from ludus.records import Experiences
from ludus.storage.tensors import load_tensors
from ludus.train.advantages import compute_on_policy, whitened
from ludus.train.group_advantages import equal_groups
from ludus.train.losses import kl
from ludus.train.objective import Objective
from ludus.train.reducer import Reducer
from ludus.train.sources import LABELS, are_from, labelled
from ludus.train.token_rows import own_elements
from ludus.train.torch_forwards import build_forward
from ludus.train.torch_scoring import Scorer
from ludus.train.torch_state import Layout, Leaves, TrainedWeights
from ludus.train.tracing import Tracer

Floats = NDArray[np.float32]


class Teacher:
    """What another language model thinks of the tokens that the policy sampled (on-policy distillation).

    A model with its adapters, if it has any. It is scored as the policy is, at the temperature at which the tokens were
    sampled, and never trained. Each of several trainers holds one and scores its share.
    """

    def __init__(
        self,
        source: TeacherModel,
        *,
        context: int,
        temperature: float = 1.0,
        by_game: Mapping[str, float] | None = None,
        reducer: Reducer | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """`context`: tokens that the policy's conversations may have."""
        own = source.model.model_copy(update={"context": context})
        try:
            loaded = load_language_model(own, speaks=False, device=device)
        except ConfigError as error:
            raise ConfigError(*(f"policy.teacher: {problem}" for problem in error.problems)) from error
        lora = source.model.lora
        self._path = source.model.path
        self._vocabulary = loaded.vocabulary
        self._forward = build_forward(loaded.model, context=loaded.context, lora=lora)
        self._scorer = Scorer(
            self._forward, reducer or Reducer(), temperature=temperature, by_game=by_game, device=loaded.model.device
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


class Credit:
    """Credits the rows of a batch by a resolved `TrainConfig`."""

    def __init__(
        self,
        train: TrainConfig,
        objective: Objective,
        scorer: Scorer,
        teacher: Teacher | None = None,
        *,
        values_here: bool = False,
    ) -> None:
        """`values_here`: rows come without the critic's values, which are computed here."""
        if train.algorithm.advantage is None:
            raise ConfigError("train.algorithm: not resolved; advantage and objective must be given")
        self._train, self._objective, self._scorer, self._teacher = train, objective, scorer, teacher
        self._advantage: AdvantageConfig = train.algorithm.advantage
        self._values_here = values_here
        self._corrects = objective.uses("importance", "truncate", "mask")
        self.tracer: Tracer | None = None
        """Who sees the rows with their credit."""

    def __call__(self, rows: Experiences, leaves: TrainedWeights, tokens: int) -> tuple[Experiences, dict[str, float]]:
        """The rows that a term looks at, with `advantage`, `target` and what else it needs; labels as numbers; figures.

        `rows` are whole sequences, from offset 0; so many `tokens` are computed at once.
        """
        rows = labelled(rows, self._objective.sources)
        steps: dict[str, NDArray[Any]] = {}
        logp = self._current(rows, leaves, tokens, steps)
        if (compared := self._compared(rows)).any():
            steps["ref_logp"] = self._evaluate(rows, compared, None, tokens)[0]
        if self._teacher is not None:
            steps["teacher_logp"] = self._taught(rows, self._teacher, tokens)
        figures = self._figures(rows.replace(steps=steps))
        rows, charged = self._charged(rows.replace(steps=steps))
        advantage, target = compute_on_policy(rows, rows.sequences.get("source"), self._advantage, logp)
        if self.tracer is not None:
            known = {} if logp is None else {"trainer_logp": logp}
            columns = {"advantage": advantage, "target": target, **known}
            self.tracer.take(rows, columns, lambda some: self._scorer.alone().evaluate(some, leaves, tokens)[0])
        if self._advantage.normalise_batch:
            advantage = whitened(advantage, own_elements(rows))
        steps = {**rows.steps, "advantage": advantage, "target": target}
        labels = {name: rows.sequences[name] for name in (*LABELS, "game") if name in rows.sequences}
        return Experiences(sequences=labels, offsets=rows.offsets, steps=steps), figures | charged

    def _current(
        self, rows: Experiences, leaves: TrainedWeights, tokens: int, steps: dict[str, NDArray[Any]]
    ) -> Floats | None:
        """What the weights think of on-policy rows before the first step, where anything asks for it."""
        several = self._train.epochs > 1 or len(rows) > self._train.minibatch
        is_vtrace = self._advantage.kind == "vtrace"
        if not (is_vtrace or self._values_here or (self._corrects and several)):
            return None
        logp, value = self._evaluate(rows, are_from(rows, frozenset({"on_policy"})), leaves, tokens)
        if self._corrects:
            steps["start_logp"] = logp
        if is_vtrace or self._values_here:
            steps["value"] = value
        return logp

    def _compared(self, rows: Experiences) -> NDArray[np.bool_]:
        """Which rows are compared with the base model, `[n]`."""
        sources = self._objective.needs_reference
        return are_from(rows, sources | {"on_policy"} if self._train.algorithm.kl_reward is not None else sources)

    def _taught(self, rows: Experiences, teacher: Teacher, tokens: int) -> Floats:
        """What the teacher thinks of what the policy itself said, `[N]`; 0 elsewhere."""
        on_policy = are_from(rows, frozenset({"on_policy"}))
        logp = np.zeros(rows.step_count, np.float32)
        if on_policy.any():
            logp[on_policy[rows.sequence_of_step()]] = teacher.logp(rows.take(np.flatnonzero(on_policy)), tokens)
        return logp

    def _figures(self, rows: Experiences) -> dict[str, float]:
        """What the advantage compares with, as a person follows it."""
        on_policy, own = are_from(rows, frozenset({"on_policy"})), own_elements(rows)
        if self._advantage.kind in GROUP_KINDS:
            return {"equal_groups": equal_groups(rows.take(np.flatnonzero(on_policy)))}
        if self._advantage.kind == "remax" and on_policy.any() and "baseline" in rows.sequences:
            baseline = np.asarray(rows.sequences["baseline"], np.float64)[on_policy]
            known = baseline[np.isfinite(baseline)]
            found = {"baseline": float(known.mean())} if len(known) else {}
            return {**found, "without_baseline": 1.0 - len(known) / len(baseline)}
        if self._advantage.kind == "distill" and own.any() and "teacher_logp" in rows.steps:
            return {"reverse_kl": float(np.mean(rows.steps["logp"][own] - rows.steps["teacher_logp"][own]))}
        return {}

    def _charged(self, rows: Experiences) -> tuple[Experiences, dict[str, float]]:
        """The rows with the KL to the base model taken from the rewards of what the policy itself chose."""
        config, own = self._train.algorithm.kl_reward, own_elements(rows)
        if config is None or not own.any():
            return rows, {}
        logp, reference = (rows.steps[name][own] for name in ("logp", "ref_logp"))
        estimate = np.zeros(len(own), np.float32)
        estimate[own] = kl(logp, reference, estimator=config.estimator).loss
        reward = np.asarray(rows.steps["reward"], np.float32) - config.weight * estimate
        return rows.replace(steps={"reward": reward}), {"kl_reward": float(estimate[own].mean())}

    def _evaluate(
        self, rows: Experiences, wanted: NDArray[np.bool_], leaves: TrainedWeights | None, tokens: int
    ) -> tuple[Floats, Floats]:
        """Log-probability and value of the targets of some rows, `[N]` each; 0 for others."""
        if wanted.all():
            return self._scorer.evaluate(rows, leaves, tokens)
        logp, value = (np.zeros(rows.step_count, np.float32) for _ in range(2))
        if wanted.any():
            at = wanted[rows.sequence_of_step()]
            logp[at], value[at] = self._scorer.evaluate(rows.take(np.flatnonzero(wanted)), leaves, tokens)
        return logp, value
