"""The two bodies: a residual tower with squeeze-excitation, and an attention body with smolgen.

Both compute what lc0 computes for a network of their kind. Features are `[B, 8, 8, C]` for the tower and `[B * 64, C]`
for the attention body.
"""

from __future__ import annotations

from math import sqrt

import jax
import jax.numpy as jnp
from flax import nnx

from ludus.chess.networks.layers import (
    ACTIVATIONS,
    ONES,
    ZEROS,
    Convolution,
    FeedForward,
    LayerNorm,
    dense,
    weight,
)
from ludus.config.sections.chess import (
    CHESS_PLANES,
    ChessAttentionConfig,
    ChessResidualConfig,
    SmolgenConfig,
)
from ludus.weight_init import Beginning

_PIECE_PLANES = 12


class SqueezeExcitation(nnx.Module):
    """Scales and shifts channels by what the whole board holds."""

    def __init__(self, filters: int, squeeze: int, activation: str, rngs: nnx.Rngs) -> None:
        self.squeeze = dense(filters, squeeze, Beginning("xavier"), rngs)
        self.excite = dense(squeeze, 2 * filters, Beginning("xavier", 0.1), rngs)
        self.activation = activation

    def __call__(self, x: jax.Array) -> jax.Array:
        pooled = self.excite(ACTIVATIONS[self.activation](self.squeeze(jnp.mean(x, axis=(1, 2)))))
        scale, shift = jnp.split(pooled[:, None, None, :], 2, axis=-1)
        return jax.nn.sigmoid(scale) * x + shift


class ResidualBlock(nnx.Module):
    """Two 3x3 convolutions, squeeze-excitation and a skip."""

    def __init__(self, config: ChessResidualConfig, rngs: nnx.Rngs) -> None:
        filters, frozen = config.filters, config.norm == "frozen"
        last = Beginning("he") if frozen else ZEROS  # without statistics, a new block begins as the identity
        self.first = Convolution(filters, filters, 3, Beginning("he"), frozen_norm=frozen)
        self.second = Convolution(filters, filters, 3, last, frozen_norm=frozen)
        self.activation, self.has_squeeze = config.activation, config.squeeze > 0
        if self.has_squeeze:
            self.se = SqueezeExcitation(filters, config.squeeze, config.activation, rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        activate = ACTIVATIONS[self.activation]
        branch = self.second(activate(self.first(x)))
        return activate(x + (self.se(branch) if self.has_squeeze else branch))


class ResidualTower(nnx.Module):
    """From planes `[B, 8, 8, 112]` to features `[B, 8, 8, F]`."""

    def __init__(self, config: ChessResidualConfig, rngs: nnx.Rngs) -> None:
        frozen = config.norm == "frozen"
        self.stem = Convolution(CHESS_PLANES, config.filters, 3, Beginning("he"), frozen_norm=frozen)
        self.blocks = nnx.List([ResidualBlock(config, rngs) for _ in range(config.blocks)])
        self.activation = config.activation

    def __call__(self, planes: jax.Array) -> jax.Array:
        x = ACTIVATIONS[self.activation](self.stem(planes))
        for block in self.blocks:
            x = block(x)
        return x


class Smolgen(nnx.Module):
    """Attention logits `[B, H, 64, 64]` from the whole position; the last matrix is shared by all layers."""

    def __init__(self, config: SmolgenConfig, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.compress = dense(width, config.compressed, Beginning("xavier"), rngs, use_bias=False)
        self.first = dense(64 * config.compressed, config.inner, Beginning("xavier"), rngs)
        self.first_norm = LayerNorm(config.inner)
        self.second = dense(config.inner, config.size * heads, Beginning("xavier"), rngs)
        self.second_norm = LayerNorm(config.size * heads)
        self.activation, self.heads = config.activation, heads

    def __call__(self, x: jax.Array, shared: nnx.Linear) -> jax.Array:
        activate = ACTIVATIONS[self.activation]
        board = self.compress(x).reshape(x.shape[0] // 64, -1)
        board = self.first_norm(activate(self.first(board)))
        board = self.second_norm(activate(self.second(board)))
        logits = shared(board.reshape(-1, board.shape[-1] // self.heads))
        return logits.reshape(-1, self.heads, 64, 64)


class EncoderLayer(nnx.Module):
    """Self-attention between squares, then a feed-forward part, each with a post-norm."""

    def __init__(self, config: ChessAttentionConfig, alpha: float, beta: float, rngs: nnx.Rngs) -> None:
        width, inner = config.width, config.feed_forward or config.width
        xavier = Beginning("xavier")
        self.query, self.key = (dense(width, width, xavier, rngs) for _ in range(2))
        self.value, self.out = (dense(width, width, Beginning("xavier", beta), rngs) for _ in range(2))
        self.attention_norm, self.feed_forward_norm = LayerNorm(width), LayerNorm(width)
        named = config.feed_forward_activation
        activation = config.activation if named == "default" else named
        self.feed_forward = FeedForward(width, inner, activation, alpha, beta, rngs)
        self.heads, self.alpha = config.heads_per_layer, alpha
        if config.smolgen is not None:
            self.smolgen = Smolgen(resolved(config.smolgen, config.activation), width, self.heads, rngs)

    def __call__(self, x: jax.Array, shared: nnx.Linear | None) -> jax.Array:
        bias = None if shared is None else self.smolgen(x, shared)
        x = self.attention_norm(x + self.alpha * self.out(self._attend(x, bias)))
        return self.feed_forward_norm(self.feed_forward(x))

    def _attend(self, x: jax.Array, bias: jax.Array | None) -> jax.Array:
        shape = (x.shape[0] // 64, 64, self.heads, x.shape[-1] // self.heads)
        query, key, value = (part(x).reshape(shape) for part in (self.query, self.key, self.value))
        logits = jnp.einsum("bqhd,bkhd->bhqk", query, key) / sqrt(shape[-1])
        mix = jax.nn.softmax(logits if bias is None else logits + bias, axis=-1)
        return jnp.einsum("bhqk,bkhd->bqhd", mix, value).reshape(x.shape)


class AttentionBody(nnx.Module):
    """From planes `[B, 8, 8, 112]` to features `[B * 64, D]`."""

    def __init__(self, config: ChessAttentionConfig, rngs: nnx.Rngs) -> None:
        width, layers = config.width, config.layers
        alpha, beta = (2 * layers) ** -0.25, (8 * layers) ** -0.25
        self.position = dense(64 * _PIECE_PLANES, 64 * config.position, Beginning("xavier"), rngs)
        self.embedding = dense(CHESS_PLANES + config.position, width, Beginning("xavier"), rngs)
        self.embedding_norm, self.feed_forward_norm = LayerNorm(width), LayerNorm(width)
        self.multiply, self.add = weight((64, width), ONES), weight((64, width), ZEROS)
        inner = config.feed_forward or width
        self.feed_forward = FeedForward(width, inner, config.activation, alpha, beta, rngs)
        self.layers = nnx.List([EncoderLayer(config, alpha, beta, rngs) for _ in range(layers)])
        self.activation, self.has_smolgen = config.activation, config.smolgen is not None
        if config.smolgen is not None:
            # Begins small, so that attention first learns from queries and keys.
            self.smolgen = dense(config.smolgen.size, 4096, Beginning("xavier", 0.1), rngs, use_bias=False)

    def __call__(self, planes: jax.Array) -> jax.Array:
        rows = planes.shape[0]
        squares = planes.reshape(rows, 64, CHESS_PLANES)
        position = self.position(squares[:, :, :_PIECE_PLANES].reshape(rows, -1)).reshape(rows, 64, -1)
        x = self.embedding(jnp.concatenate([squares, position], axis=-1).reshape(rows * 64, -1))
        x = self.embedding_norm(ACTIVATIONS[self.activation](x)).reshape(rows, 64, -1)
        x = (x * self.multiply[...] + self.add[...]).reshape(rows * 64, -1)
        x = self.feed_forward_norm(self.feed_forward(x))
        for layer in self.layers:
            x = layer(x, self.smolgen if self.has_smolgen else None)
        return x


def resolved(smolgen: SmolgenConfig, default: str) -> SmolgenConfig:
    """The same with the activation by its name."""
    if smolgen.activation != "default":
        return smolgen
    return smolgen.model_copy(update={"activation": default})
