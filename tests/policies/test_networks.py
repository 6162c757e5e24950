"""Networks: shapes, names, layouts, beginnings, and that the fast backward passes are the right ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ludus.config import MlpConfig, ResNetConfig
from ludus.errors import ConfigError
from ludus.policies.layers import dot_general, relu
from ludus.policies.networks import PolicyNetwork

BOARD = np.random.default_rng(0).random((5, 6, 7, 2)) < 0.3


def small(config: Any = None, **options: Any) -> PolicyNetwork:
    settings: dict[str, Any] = {"observation_shape": (6, 7, 2), "actions": 7, **options}
    return PolicyNetwork(config or MlpConfig(hidden=(16, 8)), **settings)


@pytest.mark.parametrize("config", [MlpConfig(hidden=(16,)), MlpConfig(hidden=()), ResNetConfig(channels=4, blocks=1)])
def test_logits_and_values_come_out_in_their_shapes(config: Any) -> None:
    network = small(config)
    logits, value = jax.jit(network.apply)(network.init(0), BOARD)
    assert (logits.shape, value.shape) == ((5, 7), (5,))
    assert logits.dtype == value.dtype == jnp.float32


def test_weights_are_a_flat_dict_by_name() -> None:
    network = small()
    assert list(network.shapes()) == sorted(network.shapes())
    assert network.shapes()["torso.0.kernel"] == (84, 16)
    assert {name: weight.shape for name, weight in network.init(0).items()} == network.shapes()


def test_numpy_weights_do_as_well() -> None:
    network = small()
    params = network.init(0)
    plain = {name: np.asarray(weight) for name, weight in params.items()}
    for apply in (network.apply, jax.jit(network.apply)):
        np.testing.assert_array_equal(apply(plain, BOARD)[1], apply(params, BOARD)[1])


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int32, np.float32, np.float64])
def test_observations_may_be_of_any_number_type(kind: Any) -> None:
    network = small()
    expected = network.apply(network.init(0), BOARD.astype(np.float32))[0]
    np.testing.assert_array_equal(network.apply(network.init(0), BOARD.astype(kind))[0], expected)


def test_the_same_seed_gives_the_same_weights_and_all_its_bits_count() -> None:
    network = small()
    one, again, other = (network.init(seed)["torso.0.kernel"] for seed in (2**62 + 1, 2**62 + 1, 1))
    np.testing.assert_array_equal(one, again)
    assert (np.asarray(one) != np.asarray(other)).any()


def test_a_new_policy_is_nearly_uniform_and_its_layers_are_orthogonal() -> None:
    network = small(MlpConfig(hidden=(64, 32)))
    params = network.init(0)
    logits, _ = network.apply(params, BOARD)
    assert np.abs(logits).max() < 0.1
    kernel = np.asarray(params["torso.1.kernel"])
    np.testing.assert_allclose(kernel.T @ kernel, 2 * np.eye(32), atol=1e-5)


def test_weights_of_zeros_play_uniformly() -> None:
    for config in (MlpConfig(hidden=(8,)), ResNetConfig(channels=4, blocks=1)):
        network = small(config)
        logits, value = network.apply({n: jnp.zeros(shape) for n, shape in network.shapes().items()}, BOARD)
        np.testing.assert_array_equal(logits, 0.0)
        np.testing.assert_array_equal(value, 0.0)


def test_planes_may_be_first_or_last() -> None:
    config = ResNetConfig(channels=4, blocks=1)
    last, first = small(config), small(config, observation_shape=(2, 6, 7), layout="channels_first")
    params = last.init(0)
    assert last.shapes() == first.shapes()
    np.testing.assert_array_equal(last.apply(params, BOARD)[0], first.apply(params, np.moveaxis(BOARD, -1, 1))[0])


def test_a_board_without_a_plane_axis_is_one_plane() -> None:
    network = small(ResNetConfig(channels=4, blocks=0), observation_shape=(3, 3), actions=9)
    assert network.apply(network.init(0), np.zeros((2, 3, 3)))[0].shape == (2, 9)


def test_a_residual_network_needs_a_board() -> None:
    with pytest.raises(ConfigError, match="use mlp"):
        small(ResNetConfig(), observation_shape=(30,))
    with pytest.raises(ConfigError, match="channels_first or channels_last"):
        small(layout="sideways")


def test_a_residual_network_sees_neighbourhoods() -> None:
    """Moving a stone changes the value, and every weight but those behind the zero beginning gets a gradient."""
    network = small(ResNetConfig(channels=4, blocks=1))
    gradient = jax.jit(jax.grad(lambda params: sum(x.sum() for x in network.apply(params, BOARD))))(network.init(0))
    still = {name for name, leaf in gradient.items() if not np.abs(leaf).max() > 0}
    assert still <= {"blocks.0.first.kernel", "blocks.0.first.bias"}


def test_the_fast_products_have_the_gradients_of_the_plain_ones() -> None:
    random = np.random.default_rng(1)
    x, w = (jnp.asarray(random.normal(size=shape), jnp.float32) for shape in ((9, 5), (5, 4)))
    x = x.at[0].set(0.0)

    def plain(x: jax.Array, w: jax.Array) -> jax.Array:
        return (jax.nn.relu(x @ w) ** 2).sum()

    def fast(x: jax.Array, w: jax.Array) -> jax.Array:
        return (relu(dot_general(x, w, (((1,), (0,)), ((), ())))) ** 2).sum()

    np.testing.assert_allclose(fast(x, w), plain(x, w), rtol=1e-6)
    expected, found = (jax.jit(jax.grad(f, argnums=(0, 1)))(x, w) for f in (plain, fast))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_other_products_are_left_to_jax() -> None:
    x, w = jnp.ones((2, 3, 4)), jnp.ones((4, 5))
    np.testing.assert_array_equal(dot_general(x, w, (((2,), (0,)), ((), ()))), x @ w)
    np.testing.assert_array_equal(dot_general(w, w, (((1,), (1,)), ((), ()))), w @ w.T)
