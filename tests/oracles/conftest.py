"""Random tensors with random masks, and where the oracles are that have no place in the development environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ludus.config import AdvantageConfig, TermConfig
from ludus.records import Experiences
from ludus.train.advantages import compute, whitened
from ludus.train.aggregation import AGGREGATIONS, Aggregation, constant_norm
from ludus.train.loss_inputs import LossInputs
from ludus.train.objective import build_objective

ROWS, LONGEST = 7, 9


@pytest.fixture(scope="session")
def outside() -> Iterator[Path]:
    """The folder with verl and Trinity on the path; skips where it was not fetched."""
    folder = os.environ.get("LUDUS_ORACLES")
    if not folder:
        pytest.skip("needs verl and Trinity beside the environment: see tests/oracles/fetch_verl.py")
    path = Path(folder).resolve()
    if not (path / ".fetched").exists():
        raise FileNotFoundError(f"nothing was fetched into {path}; run: python tests/oracles/fetch_verl.py {path}")
    sys.path.append(str(path))
    yield path
    sys.path.remove(str(path))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Rows of tokens with observations in between, one of them empty, one with a single token; `[B, T]` float64."""

    mask: torch.Tensor
    logp: torch.Tensor
    old_logp: torch.Tensor
    ref_logp: torch.Tensor
    advantage: torch.Tensor
    """One number per row, as outcomes give it."""
    value: torch.Tensor
    old_value: torch.Tensor
    target: torch.Tensor
    reward: torch.Tensor
    """At the policy's own tokens."""

    @classmethod
    def draw(cls, seed: int, *, spread: float = 0.5, contiguous: bool = False) -> Sample:
        random = np.random.default_rng(seed)
        mask = (random.random((ROWS, LONGEST)) < 0.7).astype(np.float64)
        if contiguous:
            mask = (np.arange(LONGEST) < random.integers(1, LONGEST + 1, (ROWS, 1))).astype(np.float64)
        mask[2], mask[4] = 0.0, np.eye(LONGEST)[3]
        logp = -2.0 * random.random(mask.shape)
        drawn = {name: random.normal(size=mask.shape) for name in ("value", "old_value", "target", "reward")}
        columns = {
            "mask": mask,
            "logp": logp,
            "old_logp": logp + spread * random.normal(size=mask.shape),
            "ref_logp": logp + spread * random.normal(size=mask.shape),
            "advantage": np.repeat(random.normal(size=(ROWS, 1)), LONGEST, axis=1),
            **{**drawn, "reward": drawn["reward"] * mask},
        }
        return cls(**{name: torch.from_numpy(column) for name, column in columns.items()})

    def inputs(self, **more: Any) -> LossInputs:
        names = {field.name for field in fields(LossInputs)} & {field.name for field in fields(self)}
        return LossInputs(**{name: getattr(self, name) for name in names} | more)

    def of(self, rows: list[int]) -> Sample:
        return Sample(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def experiences(self, groups: list[str] | None = None, **sequences: Any) -> Experiences:
        """The same rows as experience."""
        count = len(self.mask)
        columns = {name: np.asarray(getattr(self, name)).ravel() for name in ("reward", "value")}
        steps = {**columns, "logp": np.asarray(self.old_logp).ravel(), "mask": np.asarray(self.mask).ravel() > 0}
        named = {} if groups is None else {"group": np.array(groups, object)}
        return Experiences(sequences=named | sequences, offsets=np.arange(count + 1) * self.mask.shape[1], steps=steps)

    def credit(self, groups: list[str] | None = None, config: dict[str, Any] | None = None, **sequences: Any) -> Any:
        """Our advantages, `[B, T]`."""
        made = AdvantageConfig(**(config or {}))
        advantage, _ = compute(self.experiences(groups, **sequences), made)
        if made.normalise_batch:
            advantage = whitened(advantage, np.asarray(self.mask).ravel() > 0)
        return advantage.reshape(self.mask.shape)


def aggregation_of(name: str) -> Aggregation:
    return constant_norm(LONGEST) if name == "constant_norm" else AGGREGATIONS[name]


def ours(term: TermConfig, sample: Sample, how: str = "token_mean", **more: Any) -> tuple[float, torch.Tensor]:
    """Our loss and its gradient with respect to `logp` (or `value`)."""
    leaf = "value" if term.loss == "value" else "logp"
    tensor = getattr(sample, leaf).clone().requires_grad_()
    loss, _ = build_objective([term], aggregation_of(how))(sample.inputs(**{leaf: tensor} | more), 0.0)
    loss.backward()
    assert tensor.grad is not None
    return float(loss), tensor.grad


def theirs(function: Any, tensor: torch.Tensor) -> tuple[float, torch.Tensor]:
    """The loss of a function of one tensor, and its gradient."""
    leaf = tensor.clone().requires_grad_()
    loss = function(leaf)
    loss.backward()
    assert leaf.grad is not None
    return float(loss), leaf.grad


def assert_same(found: tuple[float, torch.Tensor], expected: tuple[float, torch.Tensor], factor: float = 1.0) -> None:
    assert found[0] == pytest.approx(expected[0] * factor, rel=1e-6, abs=1e-9)
    torch.testing.assert_close(found[1], expected[1] * factor, rtol=1e-5, atol=1e-8)
    assert found[1].abs().max() > 0
