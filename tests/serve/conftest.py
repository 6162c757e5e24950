"""A run with a tiny language model, whose versions do different things, served on loopback by the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import openai
import pytest
import torch

from ludus.config import RunConfig, load_config
from ludus.http.server import serving
from ludus.lm.adapters import init_adapter
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.tiny_model import make_tiny_model
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.serve.app import make_app, open_service
from ludus.storage.run_directory import RunDirectory

torch.set_num_threads(1)

VERSIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkingRun:
    """A run and what is needed to say what its versions should say."""

    directory: RunDirectory
    config: RunConfig
    store: PolicyStore
    model: LanguageModel

    def ref(self, version: int) -> PolicyRef:
        return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))

    def reference(self, version: int) -> Any:
        """The version as transformers and peft make it of its folder."""
        from peft import PeftModel
        from transformers import AutoModelForCausalLM

        base = AutoModelForCausalLM.from_pretrained(self.model.folder)
        return PeftModel.from_pretrained(base, str(self.store.path(self.ref(version)))).eval()


@pytest.fixture(scope="session")
def talking_run(tmp_path_factory: pytest.TempPathFactory) -> TalkingRun:
    folder = tmp_path_factory.mktemp("talking")
    model = make_tiny_model(folder / "model", seed=1, layers=2, width=64, context=256)
    directory = RunDirectory(folder / "run")
    directory.create(
        f"name: talking\ngames: ['open_spiel:tic_tac_toe']\n"
        f"policy: {{model: {{path: {model}, lora: {{rank: 4}}}}}}\nexplore: {{sampling: {{max_tokens: 24}}}}\n"
    )
    config = load_config(directory.config)
    assert config.policy.model is not None
    loaded = load_language_model(config.policy.model, threads=1)
    store = PolicyStore(directory.policies)
    shape = LanguageModelShape(model=config.policy.model, critic=False, games=("open_spiel:tic_tac_toe",))
    lora = config.policy.model.lora
    assert lora is not None
    for version in range(VERSIONS):
        rng = np.random.default_rng(version)
        weights = {
            name: tensor if "lora_A" in name or not version else rng.normal(0, 0.3, tensor.shape).astype(np.float32)
            for name, tensor in init_adapter(loaded.model, lora, seed=version).items()
        }
        store.publish(
            PolicyRef(name=PolicyName("main"), version=PolicyVersion(version)), weights, shape, step=100 * version
        )
    return TalkingRun(directory=directory, config=config, store=store, model=loaded)


@pytest.fixture(scope="session")
def url(talking_run: TalkingRun) -> Iterator[str]:
    """The API of the run, served by the local engine."""
    service = open_service(talking_run.directory, talking_run.config, threads=1)
    with serving(make_app(service)) as url:
        yield url


@pytest.fixture(scope="session")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as client:
        yield client
