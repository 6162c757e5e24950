"""Models that the tests of this room share. One thread: the machine belongs to others too."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ludus.config import LanguageModelConfig
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.tiny_model import make_tiny_model

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model; not to be changed."""
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", layers=2, width=32, context=128)


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    """A copy of the small model, to be spoilt."""
    shutil.copytree(tiny, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture(scope="session")
def model(tiny: Path) -> LanguageModel:
    """The small model, loaded."""
    return load_language_model(LanguageModelConfig(path=str(tiny)))


@pytest.fixture
def load() -> Callable[..., LanguageModel]:
    """Loads a model from a folder."""
    return lambda path, **options: load_language_model(LanguageModelConfig(path=str(path), **options))
