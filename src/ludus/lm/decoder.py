"""A decoder layer, written once for training and for generation, over an interface of operations.

Rows are tokens of many sequences, packed without padding; which rows see which is known to `attention` alone. Whoever
computes elsewhere (whole layers on a GPU, attention over sequences of varying length) implements `Operations`:

    training     training.py            gradients, shared prompts once, no cache
    generation   compiled_generation.py a paged cache of keys and values; torch_generation.py where C cannot run
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ludus.lm.kv_cache import KvCache
from ludus.lm.rows import Rows
from ludus.lm.sampling import Draws
from ludus.lm.weights import Layer, Linear, Tensors


class Operations(Protocol):
    """What a layer does to rows `[R, ...]`."""

    def rms_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square norm of `[R, width]`."""
        ...

    def linear(self, x: Tensor, linear: Linear, residual: Tensor | None = None) -> Tensor:
        """`residual + x @ matrix + bias`, with adapters; `residual` may be used up."""
        ...

    def attention(self, qkv: Tensor, layer: Layer) -> Tensor:
        """Head norms, rotary positions and attention of `[R, (heads + 2 kv_heads) * head_width]`: `[R, heads *
        head_width]`."""
        ...

    def swiglu(self, gate_up: Tensor) -> Tensor:
        """`silu(gate) * up` of `[R, 2 hidden]`."""
        ...


class Generation(Operations, Protocol):
    """Operations over a cache, for one pass after another. What a call returns is valid until the next of its kind."""

    is_exact: bool
    """Whether a row's bits are the same in any company."""

    def begin(self, rows: Rows) -> None:
        """The next calls are about these rows."""
        ...

    def draw(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens and their log-probabilities. See `sample_tokens`."""
        ...


def run_layer(do: Operations, layer: Layer, x: Tensor, wanted: Tensor | None = None) -> Tensor:
    """One layer of rows `[R, width]`; of the rows `wanted` only, where there are any."""
    seen = do.attention(do.linear(do.rms_norm(x, layer.attention_norm), layer.qkv), layer)
    if wanted is not None:
        x, seen = x.index_select(0, wanted), seen.index_select(0, wanted)
    x = do.linear(seen, layer.out, residual=x)
    gate_up = do.linear(do.rms_norm(x, layer.mlp_norm), layer.gate_up)
    return do.linear(do.swiglu(gate_up), layer.down, residual=x)


class TokenModel(Protocol):
    """What the local engine asks of a model: a base with any number of versions, over one cache of keys and values.

    `DecoderModel` and `TransformersModel` are such.
    """

    cache: KvCache
    is_exact: bool
    """Whether a row's bits are the same in any company."""
    spare_versions: int
    """How many versions that nobody uses are worth their memory."""

    def prepare(self, tensors: Tensors) -> Any:
        """`Span.weights` of a version; no tensors are the base itself. Raises ConfigError if they do not fit."""
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
