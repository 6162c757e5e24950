"""On-policy distillation against TRL's: over all tokens that could be sampled, the gradient is that of the reverse KL.

TRL (GKD with `beta: 1`, DistillationTrainer) sums over the vocabulary; the preset `distill` sees the sampled token
alone. So its gradient is weighed here with the probability of each token being sampled, at the same temperature.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from ludus.config import ALGORITHMS
from ludus.train.loss_inputs import LossInputs
from ludus.train.objective import build_objective

VOCABULARY, POSITIONS = 11, 5


@pytest.fixture(scope="module")
def generalized_jsd_loss() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("trl", reason="TRL is an oracle only; pip install trl==1.16.0")
        from trl.experimental.gkd import GKDTrainer
    return GKDTrainer.generalized_jsd_loss


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("seed", range(3))
def test_the_expected_gradient_is_that_of_the_reverse_kl(
    generalized_jsd_loss: Any, seed: int, temperature: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    student, teacher = (torch.randn(POSITIONS, VOCABULARY, generator=generator, dtype=torch.float64) for _ in range(2))
    student.requires_grad_()
    loss = generalized_jsd_loss(student[None], teacher[None], beta=1, temperature=temperature, reduction="sum")
    (expected,) = torch.autograd.grad(loss, student)

    logp = (student / temperature).log_softmax(-1)
    old, theirs = logp.detach(), (teacher / temperature).log_softmax(-1)
    objective = build_objective(ALGORITHMS["distill"].objective)
    inputs = LossInputs(mask=old.exp(), logp=logp, old_logp=old, advantage=theirs - old, entropy=torch.zeros_like(logp))
    total, _ = objective(inputs, 0.0)
    (found,) = torch.autograd.grad(total * old.exp().sum(), student)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert float(loss.detach()) == pytest.approx(float((old.exp() * (old - theirs)).sum()))
