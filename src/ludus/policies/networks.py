"""The small networks (flax.nnx): observation in, policy logits and value out.

Outside, weights are a flat dict by name, such as `torso.0.kernel`, of JAX or NumPy arrays; inside, an nnx module is put
together around them when `apply` is traced, so nothing of nnx remains at run time.

To add a network: a config in `ludus.config.play`, a module with `__call__(planes [B, ...]) -> (logits, value)` and an
entry in `MODULES`.

Layout of a board observation: OpenSpiel gives planes first, `[C, H, W]` (`channels_first`); pgx gives them last,
`[H, W, C]` (`channels_last`). The convolutions work on `[B, H, W, C]`. Observations may be bool, integer or float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod, sqrt
from typing import Any, Literal, cast, get_args

import jax
import jax.numpy as jnp
from flax import nnx

from ludus.config.play import MlpConfig, NetworkConfig, ResNetConfig
from ludus.errors import ConfigError
from ludus.policies.beginnings import Beginning, draw
from ludus.policies.dense import dot_general, relu

Layout = Literal["channels_first", "channels_last"]
Params = Mapping[str, Any]
"""Weights by name; JAX or NumPy arrays."""

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"relu": relu, "tanh": jnp.tanh, "silu": jax.nn.silu}
_POLICY_PLANES, _VALUE_PLANES, _VALUE_HIDDEN = 4, 2, 64


def _linear(inputs: int, outputs: int, scale: float, rngs: nnx.Rngs) -> nnx.Linear:
    return nnx.Linear(
        inputs,
        outputs,
        kernel_metadata={"begins": Beginning("orthogonal", scale)},
        bias_metadata={"begins": Beginning("zeros")},
        dot_general=dot_general,
        rngs=rngs,
    )


def _convolution(inputs: int, outputs: int, size: int, begins: Beginning, rngs: nnx.Rngs) -> nnx.Conv:
    return nnx.Conv(
        inputs,
        outputs,
        (size, size),
        padding="SAME",
        kernel_metadata={"begins": begins},
        bias_metadata={"begins": Beginning("zeros")},
        rngs=rngs,
    )


class Heads(nnx.Module):
    """Policy and value heads on features `[B, F]`, computed as one product."""

    def __init__(self, features: int, actions: int, rngs: nnx.Rngs) -> None:
        self.policy = _linear(features, actions, 0.01, rngs)
        self.value = _linear(features, 1, 1.0, rngs)

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
        self.torso = nnx.List([_linear(i, o, sqrt(2), rngs) for i, o in pairwise(widths)])
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
        self.first = _convolution(channels, channels, 3, Beginning("he"), rngs)
        self.second = _convolution(channels, channels, 3, Beginning("zeros"), rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return relu(x + self.second(relu(self.first(x))))


class ResNet(nnx.Module):
    """Convolutional residual network without normalisation layers: it has no state besides its weights."""

    def __init__(self, config: ResNetConfig, shape: tuple[int, ...], actions: int, rngs: nnx.Rngs) -> None:
        height, width, planes = shape
        channels = config.channels
        self.stem = _convolution(planes, channels, 3, Beginning("he"), rngs)
        self.blocks = nnx.List([ResidualBlock(channels, rngs) for _ in range(config.blocks)])
        self.policy_planes = _convolution(channels, _POLICY_PLANES, 1, Beginning("he"), rngs)
        self.policy = _linear(height * width * _POLICY_PLANES, actions, 0.01, rngs)
        self.value_planes = _convolution(channels, _VALUE_PLANES, 1, Beginning("he"), rngs)
        self.value_hidden = _linear(height * width * _VALUE_PLANES, _VALUE_HIDDEN, sqrt(2), rngs)
        self.value = _linear(_VALUE_HIDDEN, 1, 1.0, rngs)

    def __call__(self, planes: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = relu(self.stem(planes))
        for block in self.blocks:
            x = block(x)
        rows = planes.shape[0]
        logits = self.policy(relu(self.policy_planes(x)).reshape(rows, -1))
        value = self.value(relu(self.value_hidden(relu(self.value_planes(x)).reshape(rows, -1))))
        return logits, value[:, 0]


MODULES: dict[type, Callable[..., nnx.Module]] = {MlpConfig: Mlp, ResNetConfig: ResNet}


@dataclass(frozen=True)
class PolicyNetwork:
    """A network without weights; build one with `build_network`.

    How each weight begins is declared on it, as `begins`.
    """

    config: NetworkConfig
    observation_shape: tuple[int, ...]
    actions: int
    layout: Layout

    def init(self, seed: int) -> dict[str, jax.Array]:
        """Fresh weights; the same seed gives the same weights."""
        return {
            name: jnp.asarray(draw(leaf.begins, seed=seed, name=name, shape=tuple(leaf.shape)))
            for name, leaf in self._graph[1]
        }

    def apply(self, params: Params, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Logits `[B, A]` and values `[B]` for observations `[B, *S]`. Illegal actions are the caller's to mask."""
        planes = self._planes(jnp.asarray(observation).astype(jnp.float32))
        graph, leaves = self._graph
        values = [leaf.replace(jnp.asarray(params[name])) for name, leaf in leaves]
        state = nnx.from_flat_state(list(zip((tuple(_path(name)) for name, _ in leaves), values, strict=True)))
        logits, value = nnx.merge(graph, state)(planes)
        return logits, value

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every weight by name."""
        return {name: tuple(leaf.shape) for name, leaf in self._graph[1]}

    def _make(self, rngs: nnx.Rngs) -> nnx.Module:
        shape = self.observation_shape
        if isinstance(self.config, ResNetConfig):
            shape = _board(self.observation_shape, self.layout)
        return MODULES[type(self.config)](self.config, shape, self.actions, rngs)

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


def build_network(
    config: NetworkConfig, *, observation_shape: tuple[int, ...], actions: int, layout: str = "channels_last"
) -> PolicyNetwork:
    """Build a network for a game's observations and actions.

    Args:
        config: kind and sizes.
        observation_shape: what one seat sees, without the batch axis.
        actions: number of distinct actions.
        layout: where a board's planes are: `channels_first` (OpenSpiel) or `channels_last` (pgx).
    """
    if layout not in get_args(Layout):
        raise ConfigError(f"layout: expected channels_first or channels_last, got {layout!r}")
    if isinstance(config, ResNetConfig):
        _board(observation_shape, layout)
    return PolicyNetwork(config, tuple(observation_shape), actions, cast("Layout", layout))


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
