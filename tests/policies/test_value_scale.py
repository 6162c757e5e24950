"""Value normalisation beside a few lines of NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ludus.config import MlpConfig
from ludus.policies.networks import PolicyNetwork
from ludus.policies.value_scale import LEAST_VARIANCE, MEMORY, counted_in, scale_of, trained, untrained

NETWORK = PolicyNetwork(MlpConfig(hidden=(4,)), observation_shape=(3,), actions=2, normalises_value=True)


count_in = jax.jit(counted_in)


def running(batches: list[np.ndarray]) -> tuple[float, float]:
    """Mean and deviation as MAPPO's ValueNorm has them, in float64."""
    mean = square = counted = 0.0
    for batch in batches:
        mean = MEMORY * mean + (1 - MEMORY) * batch.mean()
        square = MEMORY * square + (1 - MEMORY) * (batch**2).mean()
        counted = MEMORY * counted + (1 - MEMORY)
    mean, square = mean / counted, square / counted
    return mean, float(np.sqrt(max(square - mean**2, LEAST_VARIANCE)))


def test_the_scale_is_the_debiased_running_one() -> None:
    random = np.random.default_rng(0)
    batches = [random.normal(-20 + 2 * k, 5, size=50) for k in range(6)]
    params = NETWORK.init(0)
    for number, batch in enumerate(batches, start=1):
        padded = np.concatenate([batch, [1e9, np.nan]]).astype(np.float32)
        weight = np.concatenate([np.ones(len(batch)), [0, 0]]).astype(np.float32)
        params |= count_in(params, jnp.asarray(padded), jnp.asarray(weight))
        scale = scale_of(params)
        assert scale is not None
        np.testing.assert_allclose((scale.mean, scale.deviation), running(batches[:number]), rtol=1e-3)


def test_before_the_first_update_values_are_as_the_network_says_them() -> None:
    plain = PolicyNetwork(MlpConfig(hidden=(4,)), observation_shape=(3,), actions=2)
    seen = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_array_equal(
        NETWORK.apply(NETWORK.init(0), jnp.asarray(seen))[1], plain.apply(plain.init(0), jnp.asarray(seen))[1]
    )


def test_values_come_out_in_the_games_units() -> None:
    params = NETWORK.init(0)
    seen = jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32))
    raw = NETWORK.apply(params, seen)[1]
    params |= count_in(params, jnp.asarray([90.0, 110.0]), jnp.ones(2))
    np.testing.assert_allclose(NETWORK.apply(params, seen)[1], raw * 10.0 + 100.0, rtol=1e-4)


def test_targets_that_are_not_finite_or_all_alike_do_no_harm() -> None:
    params = NETWORK.init(0)
    for target, weight in (([np.inf, 1.0], [1.0, 1.0]), ([1.0, 2.0], [0.0, 0.0])):
        same = count_in(params, jnp.asarray(target), jnp.asarray(weight))
        assert all(float(same[name]) == 0.0 for name in same)
    params |= count_in(params, jnp.full(9, 3.0), jnp.ones(9))
    scale = scale_of(params)
    assert scale is not None
    assert float(scale.deviation) == np.float32(np.sqrt(LEAST_VARIANCE))


def test_the_scale_is_not_trained() -> None:
    params = NETWORK.init(0)
    assert sorted(untrained(params)) == ["value_scale.counted", "value_scale.mean", "value_scale.square"]
    assert trained(params).keys() | untrained(params).keys() == params.keys() == NETWORK.shapes().keys()
