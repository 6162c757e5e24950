"""A language model for generation: the decoder over a cache, which operations it uses, and what its versions become.

Invariant: whether a version is merged into a copy of the weights or kept as an adapter beside the base is decided once,
for all versions: the two differ in rounding, and what a version says must not depend on what else is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from ludus.config import LoraConfig
from ludus.lm.adapters import linear_layers
from ludus.lm.architectures import Architecture, read_architecture
from ludus.lm.compiled_generation import CompiledGeneration
from ludus.lm.decoder import Generation, run_layer
from ludus.lm.kv_cache import KvCache
from ludus.lm.rows import FEWEST, Rows
from ludus.lm.sampling import Draws
from ludus.lm.torch_generation import TorchGeneration
from ludus.lm.weights import (
    Adapter,
    DecoderWeights,
    Tensors,
    check_version,
    fuse_adapter,
    fuse_weights,
    version_parameters,
)
from ludus.runtime.native import CannotCompile

logger = logging.getLogger(__name__)

WHOLE_VERSIONS, ADAPTERS = 4, 64
"""Versions kept that nobody uses: copies of the whole model, or adapters beside it."""
COUNTS = (FEWEST, FEWEST + 1, 7, 8, 13, 16, 33, 64)
"""Numbers of rows with which matrix products are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWeights:
    """What one version computes with. Versions with the same base can share a forward pass."""

    base: DecoderWeights
    adapter: Adapter | None = None


class DecoderModel:
    """Computes rows of any version of one model."""

    def __init__(self, model: PreTrainedModel, *, context: int, lora: LoraConfig | None, merge: bool = False) -> None:
        """`merge`: each version is merged into its own copy of the weights; so it is without `lora`.

        Raises NotCovered if the decoder does not compute what this model computes.
        """
        self._model = model
        self._lora = lora
        self._architecture = architecture = read_architecture(model, context=context)
        like = next(model.parameters())
        self.cache = KvCache(
            layers=architecture.layers,
            kv_heads=architecture.kv_heads,
            head_width=architecture.head_width,
            dtype=like.dtype,
            device=like.device,
        )
        self._merges = lora is None or merge
        self.spare_versions = WHOLE_VERSIONS if self._merges else ADAPTERS
        self._base = VersionWeights(base=fuse_weights(architecture.layers, model.state_dict().get))
        self._operations = _choose_operations(architecture, self.cache)
        self.is_exact = self._operations.is_exact and _is_batch_invariant(self._base.base)

    def prepare(self, tensors: Tensors) -> VersionWeights:
        """Make a version's tensors into what `forward` computes with. Raises ConfigError if they do not fit."""
        if not tensors:
            return self._base
        check_version(tensors, self._model, self._lora)
        if self._merges or self._lora is None:
            parameters = version_parameters(self._model, tensors, self._lora)
            return VersionWeights(base=fuse_weights(self._architecture.layers, parameters.get))
        outputs = {name: size for name, (size, _) in linear_layers(self._model).items()}
        like = self._base.base.norm
        adapter = fuse_adapter(tensors, self._lora, layers=self._architecture.layers, outputs=outputs, like=like)
        return VersionWeights(base=self._base.base, adapter=adapter)

    def group(self, weights: VersionWeights) -> int:
        """Versions of one group can share a forward pass."""
        return id(weights.base)

    def forward(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Compute rows, whose spans have one base, and store their keys and values.

        Returns:
            Logits `[n, vocabulary]` and last hidden states `[n, width]` of the rows wanted.
        """
        do, weights = self._operations, rows.spans[0].weights.base
        do.begin(rows)
        x = weights.embedding.index_select(0, torch.from_numpy(rows.tokens).to(weights.embedding.device))
        for layer in weights.layers:
            x = run_layer(do, layer, x)
        if rows.wanted is not None:
            x = x.index_select(0, torch.from_numpy(rows.wanted).to(x.device))
        hidden = do.rms_norm(x, weights.norm)
        return torch.mm(hidden, weights.head.t()), hidden

    def draw(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens and their log-probabilities."""
        return self._operations.draw(logits, draws)


def _choose_operations(architecture: Architecture, cache: KvCache) -> Generation:
    """Compiled ones where they can run."""
    sizes = architecture.head_width, architecture.width, architecture.hidden
    reasons: Sequence[str] = [
        *(["the model is not in float32"] if cache.keys.dtype != torch.float32 else []),
        *(["the model is not on a CPU"] if cache.keys.device.type != "cpu" else []),
        *(["its sizes are not multiples of 8"] if any(size % 8 for size in sizes) else []),
    ]
    try:
        if not reasons:
            return CompiledGeneration(architecture, cache)
    except CannotCompile as error:
        reasons = [str(error)]
    logger.warning("the engine uses plain PyTorch between matrix products, which is slower: %s", "; ".join(reasons))
    return TorchGeneration(architecture, cache)


def _is_batch_invariant(weights: DecoderWeights) -> bool:
    """Whether this machine's products with matrices of these shapes give a row the same bits in any company.

    They do here on one thread from `FEWEST` rows on; another library or more threads may divide the work by the number
    of rows. An engine promises repeatable results only where it has seen that they are.
    """
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
