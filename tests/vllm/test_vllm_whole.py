"""Whole models at a real vLLM server: tied output heads, versions within a reply, probes, and runs with servers of
their own.

`make test-vllm` makes `.venv-vllm` and runs these; without it they are skipped.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
sys.path.insert(0, str(Path(__file__).parent))

from killing import (
    check_nothing_is_doubled,
    command_line,
    descendants,
    finish,
    start,
    training_tasks,
    wait_for_event,
    workers,
)

from conftest import PYTHON, VllmServer
from ludus.config import LanguageModelConfig
from ludus.config.sections.engines import VllmEngineConfig
from ludus.errors import WrongWeights
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.inference.vllm import whole
from ludus.inference.vllm.engine import VllmEngine
from ludus.inference.vllm.whole import WholeModels
from ludus.lm.language_models import load_language_model
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.probe import Probe, probe_files, probe_tokens
from ludus.lm.tiny_model import make_tiny_model
from ludus.lm.untied_folder import write_untied_folder
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.storage.jsonl import read_jsonl

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

T = TypeVar("T")
CONTEXT, PROMPT = 512, tuple(b"A move, please: ")
FOR_WHOLE = ("--logprobs-mode", "processed_logprobs", "--enable-scale-out")


def main(version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


class Versions:
    """Versions 0 to 4 of a whole model with a tied head, far apart; 4 has a probe of other weights."""

    def __init__(self, folder: Path) -> None:
        config = LanguageModelConfig(
            path=str(make_tiny_model(folder / "model", seed=1, layers=2, context=CONTEXT)), lora=None
        )
        self.model = load_language_model(config, threads=1)
        assert self.model.model.config.tie_word_embeddings
        shape = LanguageModelShape(model=config, critic=False, games=("g",))
        self.store = PolicyStore(folder / "run" / "policies")
        for version in range(5):
            rng = np.random.default_rng(version)
            own = {name: tensor.detach().numpy() for name, tensor in self.model.model.named_parameters()}
            weights = {
                name: (tensor + 0.05 * rng.normal(size=tensor.shape)).astype(np.float32) for name, tensor in own.items()
            }
            self.store.publish(main(version), weights, shape, step=version)
            tokens = probe_tokens(self.model.tokenizer)
            of = version if version != 4 else 3
            logps = self.logps(of, tokens, 1)
            probe = Probe(tokens=tuple(tokens), logps=tuple(logps))
            for name, content in probe_files(probe.to_json()).items():
                (self.store.path(main(version)) / name).write_bytes(content)

    def logps(self, version: int, tokens: list[int], first: int, heat: float = 1.0) -> list[float]:
        """What transformers gives the tokens from the first on."""
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(self.store.path(main(version))).eval()
        with torch.inference_mode():
            logits = model(torch.tensor([tokens])).logits[0, first - 1 : -1]
        table = torch.log_softmax(logits / heat, dim=-1)
        return [float(table[place, token]) for place, token in enumerate(tokens[first:])]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    return Versions(tmp_path_factory.mktemp("whole"))


def serving(model: Path, log: Path) -> Iterator[VllmServer]:
    if not PYTHON.is_file():
        pytest.skip(f"{PYTHON.parents[1]} is missing; `make test-vllm` makes it (2.5 GB) and runs these tests")
    server = VllmServer(model, log, *FOR_WHOLE, lora=False, context=CONTEXT)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def server(versions: Versions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """Started as the documentation says."""
    folder = tmp_path_factory.mktemp("log")
    yield from serving(write_untied_folder(versions.model.folder, folder / "untied"), folder / "server.log")


def with_engine(server: Any, store: PolicyStore, use: Callable[[VllmEngine], Awaitable[T]], **options: Any) -> T:
    async def work() -> T:
        config = VllmEngineConfig(kind="vllm", url=server.url, model="base")
        engine = VllmEngine(config, store=store, context=CONTEXT, whole=WholeModels(**{"update": "drain", **options}))
        try:
            return await use(engine)
        finally:
            await engine.close()

    return asyncio.run(work())


def ask(version: int, tokens: int = 16, **fields: Any) -> Request:
    sampling = Sampling(max_tokens=tokens, temperature=fields.pop("temperature", 1.0))
    return Request(**{"prompt": PROMPT, "policy": main(version), "sampling": sampling, "seed": 1, **fields})


def test_each_version_of_a_tied_model_writes_with_its_own_weights(server: Any, versions: Versions) -> None:
    async def use(engine: VllmEngine) -> list[Completion]:
        return [
            await engine.generate(ask(version, seed=version, temperature=heat))
            for version, heat in ((0, 1.0), (1, 1.0), (2, 0.7))
        ]

    for version, heat, done in zip((0, 1, 2), (1.0, 1.0, 0.7), with_engine(server, versions.store, use), strict=True):
        assert done.policy == main(version)
        expected = versions.logps(version, [*PROMPT, *done.tokens.tolist()], len(PROMPT), heat)
        assert done.logps.tolist() == pytest.approx(expected, abs=1e-4)


def test_in_flight_a_reply_has_the_versions_that_wrote_it(server: Any, versions: Versions) -> None:
    async def use(engine: VllmEngine) -> Completion:
        await engine.generate(ask(2, tokens=1))
        long = asyncio.ensure_future(engine.generate(ask(2, tokens=400)))
        while True:
            _, running = await asyncio.sleep(0.05), await engine._root.text("/metrics", deadline_s=10)
            if "vllm:generation_tokens_total" in running and not long.done():
                break
        await asyncio.sleep(0.3)
        await engine.generate(ask(3, tokens=1))
        return await long

    done = with_engine(server, versions.store, use, update="in_flight", is_exact=False)
    assert len(done.tokens) == 400
    assert done.versions is not None, "the reply was over before the weights came"
    assert done.policy == main(2)
    assert set(done.versions.tolist()) == {2, 3}
    assert (np.diff(done.versions) >= 0).all()
    # From the change on, everything before was computed again with the new weights.
    tokens = [*PROMPT, *done.tokens.tolist()]
    change = int((done.versions == 2).sum())
    old, new = (versions.logps(version, tokens, len(PROMPT)) for version in (2, 3))
    assert done.logps[:change].tolist() == pytest.approx(old[:change], abs=1e-3)
    assert done.logps[change + 1 :].tolist() == pytest.approx(new[change + 1 :], abs=1e-3)


def test_weights_that_are_not_the_trainers_stop_everything(server: Any, versions: Versions) -> None:
    with pytest.raises(WrongWeights, match="does not have the weights of main@4 that it was given"):
        with_engine(server, versions.store, lambda engine: engine.generate(ask(4)))
    assert with_engine(server, versions.store, lambda engine: engine.generate(ask(2)), is_exact=True).policy == main(2)


def test_a_tied_head_that_is_not_given_by_itself_stays_and_is_found_out(
    versions: Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What vLLM does with the version's own folder: it answers 200 and keeps the head that it had."""

    def as_it_is(version: Path, final: Path, *, silent: bool = False) -> Path:
        final.mkdir(parents=True)
        for path in version.iterdir():
            os.symlink(path.resolve(), final / path.name)
        return final

    monkeypatch.setattr(whole, "write_untied_folder", as_it_is)
    for server in serving(versions.model.folder, tmp_path / "tied.log"):
        with pytest.raises(WrongWeights, match="keeps its old output head"):
            with_engine(server, versions.store, lambda engine: engine.generate(ask(0)))
        monkeypatch.setattr(whole, "tied_embedding", lambda folder: None)
        with pytest.raises(WrongWeights, match="does not have the weights of main@1 that it was given"):
            with_engine(server, versions.store, lambda engine: engine.generate(ask(1)))
        monkeypatch.undo()
        done = with_engine(server, versions.store, lambda engine: engine.generate(ask(2)))
        expected = versions.logps(2, [*PROMPT, *done.tokens.tolist()], len(PROMPT))
        assert done.logps.tolist() == pytest.approx(expected, abs=1e-4)


# -- runs ---------------------------------------------------------------------------------------------------------------

TEXT = """
name: whole
tasks: ["ludus/arithmetic?digits=1&ops=+&count=64"]
rewards: [{kind: numeric}]
policy: {model: {path: MODEL, lora: null}}
explore:
  games_in_flight: 8
  group: 4
  engine:
    kind: vllm
    servers: 2
    command: [PYTHON, -m, vllm.entrypoints.openai.api_server, --model]
    arguments: [--enforce-eager, --dtype, float32, --max-model-len, "512"]
  sampling: {max_tokens: 16}
train: {updates: 8, batch_episodes: 16, minibatch: 16, algorithm: {preset: PRESET}}
telemetry: {tensorboard: false, every_s: 0}
"""


@pytest.fixture
def config(versions: Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not PYTHON.is_file():
        pytest.skip(f"{PYTHON.parents[1]} is missing; `make test-vllm` makes it (2.5 GB) and runs these tests")
    for name, value in {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "0", "HF_HUB_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "run.yaml"
    path.write_text(TEXT.replace("MODEL", str(versions.model.folder)).replace("PYTHON", str(PYTHON)))
    return path


def overrides(update: str, schedule: str) -> list[str]:
    return [f"explore.engine.update={update}", f"schedule={schedule}"]


def test_two_servers_of_a_run_one_killed(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("PRESET", "ppo"))
    run = tmp_path / "run"
    process = start(config, run, *overrides("in_flight", "async"))
    assert wait_for_event(process, run, "published", 3), finish(process)
    kill_server(process)
    code, said = finish(process, 900)
    assert code == 0, said
    events = list(read_jsonl(run / "events.jsonl"))
    assert [event for event in events if event["event"] == "worker_lost" and event["worker"].startswith("engine-")]
    assert not [event for event in events if event["event"] == "episode_failed"]
    check_nothing_is_doubled(run)
    assert training_tasks(run) == list(range(len(training_tasks(run))))


def kill_server(run: Any) -> None:
    """SIGKILL one server of a run, and what it has started."""
    worker = min(workers(run.pid, "ludus.inference.vllm.server_worker"))
    server = next(pid for pid in descendants(worker) if b"api_server" in command_line(pid))
    for pid in (*descendants(server), server):
        os.kill(pid, signal.SIGKILL)
