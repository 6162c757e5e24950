"""Keys that may be changed while a run is going: those that say how long and how often, not what is learnt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ludus.config.describe.dump import dump_config
from ludus.config.loading.derive import resolve
from ludus.config.loading.load import parse_config
from ludus.config.run import RunConfig
from ludus.errors import ConfigError

SETTABLE: Mapping[str, str] = {
    "train.steps": "steps after which the run ends",
    "checkpoint.every": "updates between checkpoints",
    "evaluate.every": "steps between evaluations",
    "league.snapshot_every": "steps between snapshots for the league",
    "telemetry.every_s": "seconds between metric lines",
}


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """A resolved config with other values at some keys.

    Raises:
        ConfigError: a key may not be set while the run is going, or a value is not one that it can have.
    """
    unknown = [key for key in values if key not in SETTABLE]
    if unknown:
        raise ConfigError(*(f"{key}: cannot be set while a run is going; these can: {_NAMES}" for key in unknown))
    overrides = [f"{key}={json.dumps(value)}" for key, value in values.items()]
    return resolve(parse_config(dump_config(config), "config.yaml", overrides))


_NAMES = ", ".join(SETTABLE)
