"""Heads on a body's features: policy, value and moves left. Each computes what lc0 computes for a head of its kind.

Features of a tower are `[B, 8, 8, C]`, those of the attention body `[B * 64, C]`; a head sees them as `[B * 64, C]`.
"""

from __future__ import annotations

from math import sqrt

import jax
import jax.numpy as jnp
from flax import nnx

from ludus.chess.networks.layers import ACTIVATIONS, Convolution, dense
from ludus.chess.networks.moves import POLICY_PLANES, attention_map, convolution_map
from ludus.config.sections.chess import ChessMovesLeftHeadConfig, ChessPolicyHeadConfig, ChessValueHeadConfig
from ludus.weight_init import Beginning

_XAVIER, _SMALL = Beginning("xavier"), Beginning("xavier", 0.1)


class AttentionPolicy(nnx.Module):
    """Logits `[B, 1858]`: how well each from-square's query fits each to-square's key."""

    def __init__(self, config: ChessPolicyHeadConfig, features: int, activation: str, rngs: nnx.Rngs) -> None:
        embedding = config.embedding or features
        width = config.width or embedding
        self.embedding = dense(features, embedding, _XAVIER, rngs)
        self.query, self.key = (dense(embedding, width, _XAVIER, rngs) for _ in range(2))
        self.promotion = dense(width, 4, _SMALL, rngs, use_bias=False)
        self.activation = activation

    def __call__(self, features: jax.Array) -> jax.Array:
        rows = features.reshape(-1, features.shape[-1])
        embedded = ACTIVATIONS[self.activation](self.embedding(rows))
        query, key = (part(embedded).reshape(-1, 64, part.out_features) for part in (self.query, self.key))
        logits = jnp.einsum("bqd,bkd->bqk", query, key) / sqrt(query.shape[-1])
        last_rank = key[:, 56:]
        offsets = self.promotion(last_rank.reshape(-1, last_rank.shape[-1])).reshape(-1, 1, 8, 4)
        promotions = logits[:, 48:56, 56:, None] + offsets[..., :3] + offsets[..., 3:]
        flat = jnp.concatenate([logits.reshape(-1, 4096), promotions.reshape(-1, 192)], axis=-1)
        return flat[:, attention_map()]


class ConvolutionalPolicy(nnx.Module):
    """Logits `[B, 1858]` from 80 planes of moves by their origin."""

    def __init__(self, features: int, activation: str, *, frozen_norm: bool) -> None:
        self.first = Convolution(features, features, 3, Beginning("he"), frozen_norm=frozen_norm)
        self.planes = Convolution(features, POLICY_PLANES, 3, _SMALL)
        self.activation = activation

    def __call__(self, features: jax.Array) -> jax.Array:
        planes = self.planes(ACTIVATIONS[self.activation](self.first(features)))
        places = convolution_map()
        by_square = places % 64 * POLICY_PLANES + places // 64
        return planes.reshape(planes.shape[0], -1)[:, by_square]


class Squares(nnx.Module):
    """What value and moves-left heads begin with: some channels per square, flattened, and a hidden layer."""

    def __init__(self, features: int, channels: int, hidden: int, activation: str, frozen: bool | None, rngs: nnx.Rngs):
        begins = Beginning("he")
        self.is_convolution = frozen is not None
        self.squares = (
            dense(features, channels, begins, rngs)
            if frozen is None
            else Convolution(features, channels, 1, begins, frozen_norm=frozen)
        )
        self.hidden = dense(64 * channels, hidden, begins, rngs)
        self.activation = activation

    def __call__(self, features: jax.Array) -> jax.Array:
        activate = ACTIVATIONS[self.activation]
        squares = activate(self.squares(features))
        return activate(self.hidden(squares.reshape(-1, 64 * squares.shape[-1])))


class ValueHead(nnx.Module):
    """Logits of win, draw and loss `[B, 3]`; where asked for, its squared error `[B]` and buckets `[B, K]`."""

    def __init__(
        self, config: ChessValueHeadConfig, features: int, activation: str, frozen: bool | None, rngs: nnx.Rngs
    ) -> None:
        self.trunk = Squares(features, config.channels, config.inner, activation, frozen, rngs)
        self.wdl = dense(config.inner, 3, _SMALL, rngs)
        self.has_error, self.buckets = config.error, config.buckets
        if config.error:
            self.error = dense(config.inner, 1, _SMALL, rngs)
        if config.buckets:
            self.categorical = dense(config.inner, config.buckets, _SMALL, rngs)

    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
        hidden = self.trunk(features)
        error = jax.nn.sigmoid(self.error(hidden)[:, 0]) if self.has_error else None
        return self.wdl(hidden), error, self.categorical(hidden) if self.buckets else None


class MovesLeftHead(nnx.Module):
    """Plies until the end, `[B]`; the last activation is the body's, as in lc0."""

    def __init__(
        self, config: ChessMovesLeftHeadConfig, features: int, activation: str, frozen: bool | None, rngs: nnx.Rngs
    ) -> None:
        self.trunk = Squares(features, config.channels, config.inner, activation, frozen, rngs)
        self.plies = dense(config.inner, 1, _XAVIER, rngs)
        self.activation = activation

    def __call__(self, features: jax.Array) -> jax.Array:
        return ACTIVATIONS[self.activation](self.plies(self.trunk(features)))[:, 0]
