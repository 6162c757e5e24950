"""What the local engine asks of a model: rows in, logits out. `DecoderModel` and `TransformersModel` are such."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ludus.lm.kv_cache import KvCache
from ludus.lm.rows import Rows
from ludus.lm.sampling import Draws
from ludus.lm.weights import Tensors


class TokenModel(Protocol):
    """A base model with any number of versions, over one cache of keys and values."""

    cache: KvCache
    is_exact: bool
    """Whether a row's bits are the same in any company."""
    spare_versions: int
    """How many versions that nobody uses are worth their memory."""

    def prepare(self, tensors: Tensors) -> Any:
        """What `Span.weights` is to be for a version; no tensors are the base itself.

        Raises:
            ConfigError: the tensors do not fit the model.
        """
        ...

    def group(self, weights: Any) -> int:
        """Versions of one group can share a forward pass."""
        ...

    def forward(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Compute rows and store their keys and values.

        Returns:
            Logits `[n, vocabulary]` and last hidden states `[n, width]` of the rows wanted.
        """
        ...

    def draw(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens and their log-probabilities. See `sample_tokens`."""
        ...
