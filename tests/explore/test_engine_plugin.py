"""An engine of a plugin is made with the model, the versions and the options of the config."""

from types import SimpleNamespace
from typing import Any

import pytest

from ludus import register_engine
from ludus.config import build_config, resolve
from ludus.config.parts import ENGINES
from ludus.errors import ConfigError
from ludus.explore.runners.text_building import make_engine

VALUES = {"name": "x", "games": ["open_spiel:tic_tac_toe"], "policy": {"model": {"path": "models/tiny"}}}
PRESET = ["train.algorithm.preset=reinforce", "explore.engine={kind: custom, name: mine, options: {batch: 4}}"]


def test_an_engine_is_made_as_the_plugin_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENGINES, "added", {})
    with pytest.raises(ConfigError, match=r'explore.engine.name: "mine": no such engine'):
        resolve(build_config(VALUES, PRESET))
    register_engine("mine", lambda **arguments: SimpleNamespace(**arguments))
    model: Any = object()
    store: Any = object()
    shape: Any = SimpleNamespace(model=SimpleNamespace(lora="lora"))
    engine: Any = make_engine(resolve(build_config(VALUES, PRESET)), model, shape, store)
    assert (engine.model, engine.store, engine.lora, engine.batch) == (model, store, "lora", 4)
