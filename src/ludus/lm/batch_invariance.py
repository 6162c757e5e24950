"""Find out whether this machine's matrix products give a row the same bits in any company.

They do here on one thread from `FEWEST` rows on; another library or more threads may divide the work by the number of
rows. An engine promises repeatable results only where it has seen that they are.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ludus.lm.rows import FEWEST
from ludus.lm.weights import DecoderWeights

COUNTS = (FEWEST, FEWEST + 1, 7, 8, 13, 16, 33, 64)


def is_batch_invariant(weights: DecoderWeights) -> bool:
    """Whether products with matrices of these shapes treat rows alike."""
    if weights.head.device.type != "cpu" or weights.head.dtype != torch.float32 or torch.get_num_threads() != 1:
        return False
    matrices = {tuple(matrix.shape): matrix for matrix in _matrices(weights)}
    return all(_keeps_bits(matrix) for matrix in matrices.values())


def _matrices(weights: DecoderWeights) -> Iterable[Tensor]:
    yield weights.head.t()
    for layer in weights.layers:
        yield from (linear.matrix for linear in (layer.qkv, layer.out, layer.gate_up, layer.down))


def _keeps_bits(matrix: Tensor) -> bool:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(max(COUNTS) + 5, matrix.shape[0], generator=generator)
    whole = x @ matrix
    sums = torch.zeros_like(whole).addmm_(x, matrix)
    return all(
        torch.equal(x[start : start + count] @ matrix, whole[start : start + count])
        and torch.equal(torch.zeros(count, matrix.shape[1]).addmm_(x[:count], matrix), sums[:count])
        for count in COUNTS
        for start in (0, 5)
    )
