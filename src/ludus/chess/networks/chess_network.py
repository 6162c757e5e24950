"""A chess network: a body and named heads. As a policy network it gives the main heads' logits and W - L."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from flax import nnx

from ludus.chess.networks.bodies import AttentionBody, ResidualTower
from ludus.chess.networks.heads import AttentionPolicy, ConvolutionalPolicy, MovesLeftHead, ValueHead
from ludus.config.sections.chess import (
    CHESS_MOVES,
    CHESS_PLANES,
    ChessNetworkConfig,
    ChessPolicyHeadConfig,
    ChessResidualConfig,
)
from ludus.errors import ConfigError

_BOARD = (8, 8, CHESS_PLANES)


class ChessOutputs(NamedTuple):
    """What every head says, by the head's name."""

    policy: dict[str, jax.Array]
    """Logits `[B, 1858]`."""
    value: dict[str, jax.Array]
    """Logits of win, draw and loss, `[B, 3]`."""
    error: dict[str, jax.Array]
    """Squared error that a value head expects of its W - L, `[B]`."""
    categorical: dict[str, jax.Array]
    """Logits of equal parts of [-1, 1], `[B, K]`."""
    moves_left: dict[str, jax.Array]
    """Plies, `[B]`."""


class ChessNetwork(nnx.Module):
    """Body and heads for planes `[B, 8, 8, 112]`."""

    def __init__(self, config: ChessNetworkConfig, shape: tuple[int, ...], actions: int, rngs: nnx.Rngs) -> None:
        if tuple(shape) != _BOARD or actions != CHESS_MOVES:
            raise ConfigError(
                f"policy.network.kind: {config.kind} plays chess ({CHESS_PLANES} planes of 8x8, {CHESS_MOVES} moves); "
                f"this game shows {tuple(shape)} and has {actions} actions"
            )
        heads, activation = config.heads, config.activation
        self.body: nnx.Module
        if isinstance(config, ChessResidualConfig):
            self.body, features, frozen = ResidualTower(config, rngs), config.filters, config.norm == "frozen"
        else:
            self.body, features, frozen = AttentionBody(config, rngs), config.width, None

        def policy(head: ChessPolicyHeadConfig) -> nnx.Module:
            if head.kind == "convolution":
                return ConvolutionalPolicy(features, activation, frozen_norm=bool(frozen))
            # lc0 has SELU here for networks that are residual towers.
            return AttentionPolicy(head, features, activation if frozen is None else "selu", rngs)

        self.policy = nnx.Dict({name: policy(head) for name, head in heads.policy.items()})
        self.value = nnx.Dict(
            {name: ValueHead(head, features, activation, frozen, rngs) for name, head in heads.value.items()}
        )
        self.moves_left = nnx.Dict(
            {name: MovesLeftHead(head, features, activation, frozen, rngs) for name, head in heads.moves_left.items()}
        )
        self.main_policy, self.main_value = heads.main_policy, heads.main_value

    def __call__(self, planes: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Logits `[B, 1858]` and W - L `[B]` of the main heads."""
        features = self._features(planes)
        wdl = jax.nn.softmax(self.value[self.main_value](features)[0])
        return self.policy[self.main_policy](features), wdl[:, 0] - wdl[:, 2]

    def outputs(self, planes: jax.Array) -> ChessOutputs:
        """What every head says."""
        features = self._features(planes)
        values = {name: head(features) for name, head in self.value.items()}
        return ChessOutputs(
            policy={name: head(features) for name, head in self.policy.items()},
            value={name: wdl for name, (wdl, _, _) in values.items()},
            error={name: error for name, (_, error, _) in values.items() if error is not None},
            categorical={name: buckets for name, (_, _, buckets) in values.items() if buckets is not None},
            moves_left={name: head(features) for name, head in self.moves_left.items()},
        )

    def _features(self, planes: jax.Array) -> Any:
        body: Any = self.body
        return body(planes)
