"""Run directories that hold weights and nothing else, for `policy.start` and for every command that takes a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ludus.chess.network_source import chess_shape
from ludus.config import ChessNetworkConfig, dump_config, parse_resolved
from ludus.errors import ConfigError
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.run_directory import RunDirectory

REF = PolicyRef(name=PolicyName("main"), version=PolicyVersion(0))


def fresh_weights(network: ChessNetworkConfig, seed: int) -> dict[str, Any]:
    """Weights as a run with this seed draws them."""
    return {name: np.asarray(value) for name, value in chess_shape(network).build().init(seed).items()}


def write_start(path: Path, config_yaml: str, weights: Mapping[str, Any], *, steps: int = 0) -> PolicyRef:
    """Make a run directory whose version 0 has these weights.

    Args:
        path: A directory that is empty or not there.
        config_yaml: Config whose `policy.network` the weights fit; `policy.start` is left out of it.
        weights: By name.
        steps: That they were trained for.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{path} exists; remove it, or choose another directory")
    config = parse_resolved(config_yaml, "config.yaml")
    config = config.model_copy(update={"policy": config.policy.model_copy(update={"start": None})})
    network: Any = config.policy.network
    run = RunDirectory(path)
    run.create(dump_config(config))
    PolicyStore(run.policies).publish(REF, dict(weights), chess_shape(network), step=steps)
    return REF
