"""The critic head of a version: how good the last hidden state looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ludus.errors import ConfigError
from ludus.lm.rows import FEWEST
from ludus.lm.weights import Tensors

WEIGHT = "value_head.weight"
BIAS = "value_head.bias"
COLUMNS = 8
"""Of the product, all but the first zero: how a product with one column adds up depends on its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """A linear function of the last hidden state, in float32."""

    weight: Tensor
    """`[width, COLUMNS]`."""
    bias: float

    def judge(self, hidden: Tensor) -> NDArray[np.float32]:
        """Values `[n]` of hidden states `[n, width]`."""
        count = len(hidden)
        if count < FEWEST:
            hidden = torch.cat([hidden, hidden.new_zeros(FEWEST - count, hidden.shape[1])])
        values = (hidden.float() @ self.weight)[:count, 0].cpu().numpy()
        judged: NDArray[np.float32] = values + np.float32(self.bias)
        return judged


def read_critic(tensors: Tensors, *, width: int, device: torch.device) -> Critic | None:
    """The critic among a version's tensors, if there is one.

    Raises:
        ConfigError: it does not fit the model.
    """
    if WEIGHT not in tensors:
        return None
    weight, bias = np.asarray(tensors[WEIGHT], np.float32), np.asarray(tensors.get(BIAS, np.zeros(1)), np.float32)
    if weight.shape != (1, width) or bias.shape != (1,):
        raise ConfigError(f"{WEIGHT} has shape {list(weight.shape)}, the model needs [1, {width}]")
    columns = torch.zeros(width, COLUMNS)
    columns[:, 0] = torch.from_numpy(weight[0].copy())
    return Critic(weight=columns.to(device), bias=float(bias[0]))
