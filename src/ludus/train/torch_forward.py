"""How a language model scores sampled tokens: what every forward pass is to a learner.

Two are there: `DecoderForward` for architectures that ludus computes itself, the fastest on a CPU, and `PackedForward`
for any causal model of transformers. `torch_forwards.py` chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ludus.records import Experiences
from ludus.train.token_rows import Ints, Targets
from ludus.train.torch_state import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What the model thinks of each target, `[M]` in the order of `Targets`."""

    logp: torch.Tensor
    """Log-probability at the sampling temperature, float32."""
    entropy: torch.Tensor
    hidden: torch.Tensor
    """`[Q, d]`: last hidden states, as the output head sees them; for a critic."""
    place: torch.Tensor
    """`[M]`: which of them predicts the target."""


class Forward(Protocol):
    """A forward pass with gradients."""

    fused: tuple[Names, ...]
    """Weights that it wants behind each other, so that several matrices are one."""

    is_collective: bool
    """Whether all trainers must make as many passes as each other, because each holds a shard of the weights."""

    def parts(self, rows: Experiences, tokens: int) -> list[Ints]:
        """Cut a minibatch: the rows of each part, so that no part computes more than so many tokens (or is one row)."""
        ...

    def score(self, rows: Experiences, targets: Targets, weights: Any, *, temperature: float) -> Scores:
        """Score the targets. `weights` None: the base model as it is, without adapters."""
        ...

    def idle(self, weights: Any) -> torch.Tensor:
        """Where passes are collective: one over next to nothing, and a 0 whose gradient is one."""
        ...

    def release(self) -> None:
        """Let go of the weights of the last call: its gradient has been taken. The base model is as it was."""
        ...
