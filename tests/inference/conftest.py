"""A tiny language model with three versions, engines over it, and the same by peft."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

from engine_models import LORA, main, random_adapter, tiny_language_model, with_peft

from ludus.inference.local.engine import LocalEngine
from ludus.lm.language_models import LanguageModel
from ludus.records import PolicyRef

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return tiny_language_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def adapters(tiny: LanguageModel) -> dict[PolicyRef, dict[str, NDArray[Any]]]:
    """Three versions with critics."""
    return {main(version): random_adapter(tiny.model, version, critic=True) for version in range(3)}


@pytest.fixture(scope="session")
def references(tiny: LanguageModel, adapters: dict[PolicyRef, dict[str, NDArray[Any]]]) -> dict[PolicyRef, Any]:
    """The three versions by peft."""
    return {policy: with_peft(tiny.model, tensors) for policy, tensors in adapters.items()}


@pytest.fixture(scope="session")
def make_engine(tiny: LanguageModel, adapters: dict[PolicyRef, dict[str, NDArray[Any]]]) -> Callable[..., LocalEngine]:
    """Engines over the tiny model that have the three versions."""

    def make(**options: Any) -> LocalEngine:
        engine = LocalEngine(tiny, lora=LORA, **options)
        for policy, tensors in adapters.items():
            engine.add_version(policy, tensors)
        return engine

    return make
