"""Networks of plugins, by name. Light to import: what makes one is called when its weights or its output are asked for.

Add one from a plugin with `register_network`, or from an installed package with an entry point in the group
`ludus.networks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ludus.config.parts import NETWORKS
from ludus.errors import ConfigError

NetworkFactory = Callable[..., Any]
"""Called as `factory(shape, actions, rngs, **options)`; gives a `flax.nnx.Module`."""


def register_network(name: str, factory: NetworkFactory) -> None:
    """Make a network known under a name, for `policy.network: {kind: custom, name: ...}`.

    Args:
        name: Small letters, digits and _.
        factory: Takes the shape of what a seat sees (boards as `[H, W, C]`), the number of actions, `nnx.Rngs` and the
            options of the config; gives a module with `__call__(seen [B, *shape]) -> (logits [B, A], value [B])`.
    """
    if not callable(factory):
        raise ConfigError(f"network {name!r}: expected a class or function, got {type(factory).__name__}")
    NETWORKS.add(name, factory)
