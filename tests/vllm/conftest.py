"""A real vLLM server from `.venv-vllm`, over the tiny model and versions of it that do different things."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
import torch

from ludus.config import LanguageModelConfig, LoraConfig
from ludus.lm.adapters import init_adapter
from ludus.lm.language_models import LanguageModel, load_language_model
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.tiny_model import make_tiny_model
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion

torch.set_num_threads(1)

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"
CONTEXT, VERSIONS, STARTUP_S = 256, 5, 600


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "vllm: needs .venv-vllm; `make test-vllm` makes it and runs these")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A base model and published versions of it."""

    model: LanguageModel
    store: PolicyStore
    shape: LanguageModelShape
    references: dict[int, Any] = field(default_factory=dict)

    def reference(self, version: int) -> Any:
        """The version as transformers and peft make it of its folder."""
        from peft import PeftModel
        from transformers import AutoModelForCausalLM

        if version not in self.references:
            base = AutoModelForCausalLM.from_pretrained(self.model.folder)
            folder = self.store.path(main(version))
            self.references[version] = PeftModel.from_pretrained(base, str(folder)).eval()
        return self.references[version]


def main(version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("vllm")
    config = LanguageModelConfig(
        path=str(make_tiny_model(folder / "model", seed=1, layers=2, context=CONTEXT)), lora=LoraConfig(rank=4)
    )
    assert config.lora is not None
    model = load_language_model(config, threads=1)
    store = PolicyStore(folder / "policies")
    shape = LanguageModelShape(model=config, critic=False, games=("g",))
    for version in range(VERSIONS):
        rng = np.random.default_rng(version)
        weights = {
            name: tensor if "lora_A" in name or not version else rng.normal(0, 0.3, tensor.shape).astype(np.float32)
            for name, tensor in init_adapter(model.model, config.lora, seed=version).items()
        }
        store.publish(main(version), weights, shape, step=version)
    return Published(model=model, store=store, shape=shape)


class VllmServer:
    """A server process that can be started again on its port."""

    def __init__(self, model: Path, log: Path, *options: str, lora: bool = True, context: int = CONTEXT) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._model = model
        self._log = log
        adapters = ("--enable-lora", "--max-loras", "4", "--max-lora-rank", "8") if lora else ()
        self._options = (*adapters, "--max-model-len", str(context), *options)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        environment = {
            **os.environ,
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "0",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(self._model)]
        command += ["--served-model-name", "base", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--dtype", "float32", "--enforce-eager", *self._options]
        with self._log.open("ab") as log:
            # A session of its own, so that its workers can be ended with it.
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True, cwd=self._log.parent
            )
        self._wait()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it and its workers at once, as a crash would."""
        if self._process is not None:
            os.killpg(self._process.pid, 9)
            self._process.wait(60)
            self._process = None

    def _wait(self) -> None:
        ends = time.monotonic() + STARTUP_S
        while time.monotonic() < ends:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                with urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.5)  # another process's start has no event to wait on
        pytest.fail(f"the vLLM server did not start:\n{self._log.read_text(errors='replace')[-4000:]}")


def _serving(published: Published, log: Path, *options: str) -> Iterator[VllmServer]:
    if not PYTHON.is_file():
        pytest.skip(f"{PYTHON.parents[1]} is missing; `make test-vllm` makes it (2.5 GB) and runs these tests")
    server = VllmServer(published.model.folder, log, *options)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def server(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """Started as the documentation says for training: log-probabilities after temperature."""
    log = tmp_path_factory.mktemp("log") / "processed.log"
    yield from _serving(published, log, "--logprobs-mode", "processed_logprobs")


@pytest.fixture(scope="session")
def raw_server(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """Started with vLLM's own defaults: log-probabilities before temperature."""
    yield from _serving(published, tmp_path_factory.mktemp("log") / "raw.log")
