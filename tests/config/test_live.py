"""Keys that may be set while a run is going."""

from __future__ import annotations

import pytest

from ludus.config import build_config
from ludus.config.loading.derive import resolve
from ludus.config.loading.resume import MAY_CHANGE, SETTABLE, with_values
from ludus.errors import ConfigError

CONFIG = resolve(build_config({"name": "x", "games": ["pgx:connect_four"]}))


def test_values_are_checked_like_those_of_a_file() -> None:
    changed = with_values(CONFIG, {"train.steps": 70_000, "telemetry.every_s": 0.5})
    assert (changed.train.steps, changed.telemetry.every_s) == (70_000, 0.5)
    for value in (-1, "many", 1.5, 7):
        with pytest.raises(ConfigError, match=r"train\.steps"):
            with_values(CONFIG, {"train.steps": value})


def test_what_decides_what_is_learnt_cannot_be_set() -> None:
    with pytest.raises(
        ConfigError, match=r"policy\.network: cannot be set while a run is going; these can: train\.steps"
    ):
        with_values(CONFIG, {"policy.network": {"kind": "mlp"}})


def test_what_can_be_set_may_change_at_a_resume() -> None:
    for key in SETTABLE:
        assert any(key == allowed or key.startswith(f"{allowed}.") for allowed in MAY_CHANGE), key
