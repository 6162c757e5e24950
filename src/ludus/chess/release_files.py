"""Versions of a chess network as files for other programs (`cycle.release`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ludus.chess.lc0_format import compressed, network_bytes, omitted_heads
from ludus.chess.network_source import input_format_of
from ludus.config import ChessAttentionConfig, ChessNetworkConfig, ChessResidualConfig, RunConfig
from ludus.errors import ConfigError
from ludus.policies import PolicyStore
from ludus.policies.releases import Writer
from ludus.policies.shapes import PolicyShape
from ludus.policies.store import Policy
from ludus.records import PolicyRef

log = logging.getLogger(__name__)


def release_writers(policies: PolicyStore, config: RunConfig) -> Mapping[str, Writer]:
    """What makes the files of each format. They state the input format that the run trains on."""
    input_format = input_format_of(config)
    told: set[str] = set()

    def load(ref: PolicyRef, what: str) -> tuple[Policy[PolicyShape], ChessNetworkConfig]:
        policy = policies.load(ref, PolicyShape)
        network = policy.shape.network
        if not isinstance(network, ChessAttentionConfig | ChessResidualConfig):
            raise ConfigError(f"{ref} is a {network.kind}; {what} chess networks only")
        return policy, network

    def lc0(ref: PolicyRef) -> bytes:
        policy, network = load(ref, "lc0 loads")
        if (omitted := ", ".join(omitted_heads(network))) and omitted not in told:
            told.add(omitted)
            log.warning("cycle.release: lc0's format has no place for the heads %s; format: onnx has them all", omitted)
        return compressed(network_bytes(network, policy.weights, input_format=input_format, steps=policy.step))

    def onnx(ref: PolicyRef) -> bytes:
        from ludus.chess.onnx_format import onnx_bytes

        policy, network = load(ref, "this exports")
        name = f"{config.name}-{ref.name}-{ref.version}"
        return onnx_bytes(network, policy.weights, input_format=input_format, steps=policy.step, name=name)

    return {"lc0": lc0, "onnx": onnx}
