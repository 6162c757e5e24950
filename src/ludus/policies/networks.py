"""The small networks (flax.nnx): observation in, policy logits and value out.

Outside, weights are a flat dict by name, such as `torso.0.kernel`, of JAX or NumPy arrays; inside, an nnx module is put
together around them when `apply` is traced, so nothing of nnx remains at run time.

To add one: a config in `config.sections.policy`, a module with `__call__(planes [B, ...]) -> (logits, value)` and an
entry in `MODULES`; or, in a plugin, `register_network`. Those with a memory or a critic of their own are in
`actor_critic.py`.

Layout of a board observation: OpenSpiel gives planes first, `[C, H, W]` (`channels_first`); pgx gives them last,
`[H, W, C]` (`channels_last`). The convolutions work on `[B, H, W, C]`. Observations may be bool, integer or float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from math import prod, sqrt
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ludus.config import (
    ChessAttentionConfig,
    ChessResidualConfig,
    CustomNetworkConfig,
    MlpConfig,
    NetworkConfig,
    ResNetConfig,
)
from ludus.config.parts import NETWORKS
from ludus.errors import ConfigError
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.layers import ACTIVATIONS, convolution, dot_general, linear, relu
from ludus.policies.value_scale import NAMES, scale_of
from ludus.weight_init import Beginning, draw

Params = Mapping[str, Any]
"""Weights by name; JAX or NumPy arrays."""

_POLICY_PLANES, _VALUE_PLANES, _VALUE_HIDDEN = 4, 2, 64


class Heads(nnx.Module):
    """Policy and value heads on features `[B, F]`, computed as one product."""

    def __init__(self, features: int, actions: int, rngs: nnx.Rngs) -> None:
        self.policy = linear(features, actions, 0.01, rngs)
        self.value = linear(features, 1, 1.0, rngs)

    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array]:
        policy, value = nnx.to_pure_dict(nnx.state(self.policy)), nnx.to_pure_dict(nnx.state(self.value))
        kernel = jnp.concatenate([policy["kernel"], value["kernel"]], axis=1)
        bias = jnp.concatenate([policy["bias"], value["bias"]])
        both = dot_general(features, kernel, (((1,), (0,)), ((), ()))) + bias
        return both[:, :-1], both[:, -1]


class Mlp(nnx.Module):
    """Fully connected; orthogonal weights scaled sqrt(2) in the torso, 0.01 for the policy and 1 for the value."""

    def __init__(self, config: MlpConfig, shape: tuple[int, ...], actions: int, rngs: nnx.Rngs) -> None:
        widths = (prod(shape), *config.hidden)
        self.torso = nnx.List([linear(i, o, sqrt(2), rngs) for i, o in pairwise(widths)])
        self.heads = Heads(widths[-1], actions, rngs)
        self.activation = config.activation

    def __call__(self, planes: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = planes.reshape(planes.shape[0], -1)
        for layer in self.torso:
            x = ACTIVATIONS[self.activation](layer(x))
        return self.heads(x)


class ResidualBlock(nnx.Module):
    """Two 3x3 convolutions beside a skip; the second begins at zero, so a new block is the identity."""

    def __init__(self, channels: int, rngs: nnx.Rngs) -> None:
        self.first = convolution(channels, channels, 3, Beginning("he"), rngs)
        self.second = convolution(channels, channels, 3, Beginning("zeros"), rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return relu(x + self.second(relu(self.first(x))))


class ResNet(nnx.Module):
    """Convolutional residual network without normalisation layers: it has no state besides its weights."""

    def __init__(self, config: ResNetConfig, shape: tuple[int, ...], actions: int, rngs: nnx.Rngs) -> None:
        height, width, planes = shape
        channels = config.channels
        self.stem = convolution(planes, channels, 3, Beginning("he"), rngs)
        self.blocks = nnx.List([ResidualBlock(channels, rngs) for _ in range(config.blocks)])
        self.policy_planes = convolution(channels, _POLICY_PLANES, 1, Beginning("he"), rngs)
        self.policy = linear(height * width * _POLICY_PLANES, actions, 0.01, rngs)
        self.value_planes = convolution(channels, _VALUE_PLANES, 1, Beginning("he"), rngs)
        self.value_hidden = linear(height * width * _VALUE_PLANES, _VALUE_HIDDEN, sqrt(2), rngs)
        self.value = linear(_VALUE_HIDDEN, 1, 1.0, rngs)

    def __call__(self, planes: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = relu(self.stem(planes))
        for block in self.blocks:
            x = block(x)
        rows = planes.shape[0]
        logits = self.policy(relu(self.policy_planes(x)).reshape(rows, -1))
        value = self.value(relu(self.value_hidden(relu(self.value_planes(x)).reshape(rows, -1))))
        return logits, value[:, 0]


def _chess(*arguments: Any) -> nnx.Module:
    """A chess network, whose room is above this one and is loaded when such a network is made."""
    module: nnx.Module = import_module("ludus.chess.networks").ChessNetwork(*arguments)
    return module


MODULES: dict[type, Callable[..., nnx.Module]] = {
    MlpConfig: Mlp,
    ResNetConfig: ResNet,
    ChessResidualConfig: _chess,
    ChessAttentionConfig: _chess,
}


@dataclass(frozen=True)
class PolicyNetwork:
    """A network without weights, for a game's observations and actions.

    How each weight begins is declared on it, as `begins`.
    """

    config: NetworkConfig
    _: KW_ONLY
    observation_shape: tuple[int, ...]
    """What one seat sees, without the batch axis."""
    actions: int
    """Number of distinct actions."""
    layout: str = "channels_last"
    """Where a board's planes are: `channels_first` (OpenSpiel) or `channels_last` (pgx)."""
    critic: str = "shared"
    """`shared` with the policy's network, or a network of its `own`, or one that sees the state (`central`)."""
    state_size: int = 0
    """Numbers of the whole state that a central critic sees besides what its seat sees; 0 for any other."""
    normalises_value: bool = False
    """Whether the critic learns normalised returns; its values are in the game's units all the same."""

    def __post_init__(self) -> None:
        if self.layout not in ("channels_first", "channels_last"):
            raise ConfigError(f"layout: expected channels_first or channels_last, got {self.layout!r}")
        if isinstance(self.config, ResNetConfig):
            _board(self.observation_shape, self.layout)
        if not isinstance(self.config, MlpConfig) and self.critic != "shared":
            kind = self.config.kind
            raise ConfigError(
                f"policy.critic: {self.critic} needs policy.network.kind: mlp; a {kind} shares its critic"
            )
        if self.critic != "central":
            object.__setattr__(self, "state_size", 0)

    @property
    def memory_size(self) -> int:
        """Numbers that a seat carries from one decision to its next; 0 for a network without memory."""
        memory = self.config.memory if isinstance(self.config, MlpConfig) else None
        return 0 if memory is None else memory.size * (1 if self.critic == "shared" else 2)

    def init(self, seed: int) -> dict[str, jax.Array]:
        """Fresh weights; the same seed gives the same weights."""
        if isinstance(self.config, CustomNetworkConfig):
            weights = self._drawn_by_flax(seed)
        else:
            weights = {
                name: jnp.asarray(draw(leaf.begins, seed=seed, name=name, shape=tuple(leaf.shape)))
                for name, leaf in self._graph[1]
            }
        return weights | {name: jnp.zeros(()) for name in self._scale_names}

    def apply(
        self, params: Params, observation: jax.Array, state: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Logits `[B, A]` and values `[B]` for observations `[B, *S]`. Illegal actions are the caller's to mask.

        A network with a memory begins with an empty one; a critic that sees the `state`, `[B, G]`, must be given it.
        """
        logits, value, _ = self.step(params, observation, state)
        return logits, value

    def step(
        self,
        params: Params,
        observation: jax.Array,
        state: jax.Array | None = None,
        memory: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """As `apply`, with a memory `[B, M]` before and after."""
        if not self._takes_chunks:
            observed = self._planes(jnp.asarray(observation).astype(jnp.float32))
            logits, value = self.module(params)(observed)
            return logits, self._in_units(params, value), jnp.zeros((len(observed), 0))
        chunk = None if state is None else jnp.asarray(state)[:, None]
        logits, value, memory = self.unroll(params, jnp.asarray(observation)[:, None], chunk, memory)
        return logits[:, 0], value[:, 0], memory

    def unroll(
        self, params: Params, observation: jax.Array, state: jax.Array | None, memory: jax.Array | None
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Logits `[B, L, A]`, values `[B, L]` and the memory `[B, M]` after chunks of L decisions, `[B, L, *S]`."""
        rows, length = observation.shape[:2]
        if state is None:
            if self.state_size:
                raise ConfigError("policy.critic: central needs the state of the game, and none was given")
            state = jnp.zeros((rows, length, 0))
        memory = jnp.zeros((rows, self.memory_size)) if memory is None else jnp.asarray(memory)
        seen = jnp.asarray(observation).astype(jnp.float32)
        logits, value, memory = self.module(params)(seen, jnp.asarray(state), memory)
        return logits, self._in_units(params, value), memory

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every weight by name."""
        shapes = {name: tuple(leaf.shape) for name, leaf in self._graph[1]}
        return shapes | {name: () for name in self._scale_names}

    @property
    def _scale_names(self) -> tuple[str, ...]:
        return NAMES if self.normalises_value else ()

    @property
    def _takes_chunks(self) -> bool:
        """Whether the network is an `ActorCritic`, which works on chunks of decisions."""
        return self.critic != "shared" or self.memory_size > 0

    def module(self, params: Params) -> Any:
        """The network with these weights, as a module on planes `[B, H, W, C]` or on flat observations."""
        graph, leaves = self._graph
        values = [leaf.replace(jnp.asarray(params[name])) for name, leaf in leaves]
        state = nnx.from_flat_state(list(zip((tuple(_path(name)) for name, _ in leaves), values, strict=True)))
        return nnx.merge(graph, state)

    def _in_units(self, params: Params, value: jax.Array) -> jax.Array:
        scale = scale_of(params) if self.normalises_value else None
        return value if scale is None else scale.denormalise(value)

    def _make(self, rngs: nnx.Rngs) -> nnx.Module:
        shape = self.observation_shape
        if self._takes_chunks and isinstance(self.config, MlpConfig):
            return ActorCritic(
                self.config,
                inputs=prod(shape),
                state=self.state_size,
                actions=self.actions,
                shares=self.critic == "shared",
                rngs=rngs,
            )
        if not isinstance(self.config, MlpConfig) and len(shape) in (2, 3):
            shape = _board(self.observation_shape, self.layout)
        if isinstance(self.config, CustomNetworkConfig):
            module: nnx.Module = NETWORKS.find(self.config.name)(shape, self.actions, rngs, **self.config.options)
            return module
        return MODULES[type(self.config)](self.config, shape, self.actions, rngs)

    def _drawn_by_flax(self, seed: int) -> dict[str, jax.Array]:
        """The weights of a plugin's module as its own initialisers draw them."""
        state = nnx.to_flat_state(nnx.state(self._make(nnx.Rngs(seed))))
        return {".".join(map(str, path)): jnp.asarray(leaf.get_value()) for path, leaf in state}

    @cached_property
    def _graph(self) -> tuple[Any, list[tuple[str, Any]]]:
        graph, state = nnx.split(nnx.eval_shape(lambda: self._make(nnx.Rngs(0))))
        named = {".".join(map(str, path)): leaf for path, leaf in nnx.to_flat_state(state)}
        return graph, sorted(named.items())

    def _planes(self, observation: jax.Array) -> jax.Array:
        if isinstance(self.config, MlpConfig):
            return observation
        if observation.ndim == 3:
            return observation[..., None]
        return jnp.moveaxis(observation, 1, -1) if self.layout == "channels_first" else observation


def _board(shape: tuple[int, ...], layout: str) -> tuple[int, int, int]:
    """Height, width and planes of a board; `[H, W]` is one plane."""
    if len(shape) == 2:
        return (*shape, 1)
    if len(shape) != 3:
        raise ConfigError(f"policy.network.kind: resnet needs a board to look at, but a seat sees {shape}; use mlp")
    first, second, third = shape
    return (second, third, first) if layout == "channels_first" else (first, second, third)


def _path(name: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in name.split(".")]
