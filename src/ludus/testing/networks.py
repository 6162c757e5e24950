"""The promises of a network, as one public check.

from ludus.testing import check_network
def test_mine(): check_network(Mine, shape=(3, 3, 2), actions=9, width=16)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.config import CustomNetworkConfig
from ludus.config.parts import NETWORKS
from ludus.policies.shapes import NetworkFactory
from ludus.testing.conformance import call, require

ROWS = 5
CLOSE = 1e-4
_NAME = "being_checked"


def check_network(factory: NetworkFactory, *, shape: tuple[int, ...], actions: int, **options: Any) -> None:
    """Raise `ConformanceError` naming the promise that the network breaks.

    Covered: finite logits `[B, A]` and values `[B]`; a row that does not depend on the others; weights that follow from
    the seed; finite gradients, of which not all are 0; no state besides the weights. Not covered: whether it learns.

    Args:
        factory: As for `register_network`.
        shape: What a seat sees; a board as `[H, W, C]`.
        actions: Number of actions.
        **options: Further arguments of the factory.
    """
    import jax
    import jax.numpy as jnp

    from ludus.policies.networks import PolicyNetwork

    config = CustomNetworkConfig(name=_NAME, options=options)
    NETWORKS.added[_NAME] = factory
    try:
        network = PolicyNetwork(config, observation_shape=shape, actions=actions, layout="channels_last")
        weights, again, others = (call("making the network", network.init, seed) for seed in (0, 0, 1))
        apply = jax.jit(network.apply)
        seen = jnp.asarray(np.random.default_rng(0).normal(size=(ROWS, *shape)), jnp.float32)
        logits, value = call("the network", apply, weights, seen)
        alone = [call("the network", apply, weights, seen[row : row + 1]) for row in range(ROWS)]
        slope = jax.grad(lambda weights: sum(jnp.sum(jnp.square(out)) for out in network.apply(weights, seen)))(weights)
    finally:
        del NETWORKS.added[_NAME]
    require(logits.shape == (ROWS, actions), f"logits are [B, A] = {(ROWS, actions)}, got {logits.shape}")
    require(value.shape == (ROWS,), f"values are [B] = {(ROWS,)}, got {value.shape}")
    require(bool(jnp.isfinite(logits).all() and jnp.isfinite(value).all()), "logits and values are finite")
    for row, (its_logits, its_value) in enumerate(alone):
        same = np.allclose(its_logits[0], logits[row], atol=CLOSE) and np.allclose(its_value[0], value[row], atol=CLOSE)
        require(bool(same), "a row gives the same alone and among others: no statistics over the batch")
    require(all(map(np.array_equal, weights.values(), again.values())), "the same seed gives the same weights")
    require(not all(map(np.array_equal, weights.values(), others.values())), "another seed gives other weights")
    require(all(bool(jnp.isfinite(one).all()) for one in slope.values()), "gradients are finite")
    require(any(bool(one.any()) for one in slope.values()), "some weight has a gradient that is not 0")
