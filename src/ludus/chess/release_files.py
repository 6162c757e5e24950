"""Versions of a chess network as files for other programs (`cycle.release`)."""

from __future__ import annotations

from collections.abc import Mapping

from ludus.chess.lc0_format import compressed, network_bytes
from ludus.config import ChessAttentionConfig, ChessResidualConfig
from ludus.errors import ConfigError
from ludus.policies import PolicyStore
from ludus.policies.releases import Writer
from ludus.policies.shapes import PolicyShape
from ludus.records import PolicyRef


def release_writers(policies: PolicyStore) -> Mapping[str, Writer]:
    """What makes the files of each format."""

    def lc0(ref: PolicyRef) -> bytes:
        policy = policies.load(ref, PolicyShape)
        if not isinstance(policy.shape.network, ChessAttentionConfig | ChessResidualConfig):
            raise ConfigError(f"{ref} is a {policy.shape.network.kind}; lc0 loads chess networks only")
        return compressed(network_bytes(policy.shape.network, policy.weights, steps=policy.step))

    return {"lc0": lc0}
