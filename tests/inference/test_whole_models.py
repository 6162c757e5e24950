"""Whole models at a server that behaves as vLLM does; tests/vllm does the same with the real one."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parent))

from fake_vllm import CONTEXT, FakeVllm, fake_vllm

from ludus.config import LanguageModelConfig
from ludus.config.sections.engines import VllmEngineConfig
from ludus.errors import CorruptRecord, PolicyError, WrongWeights
from ludus.inference.protocol import Completion, Request, Sampling
from ludus.inference.vllm.engine import VllmEngine
from ludus.inference.vllm.server import ServerOrder, command_line, environment_of
from ludus.inference.vllm.whole import WholeModels
from ludus.inference.vllm.window import LEAST, Window
from ludus.inference.vllm.wire import read_versions
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.probe import Probe, probe_files, read_probe
from ludus.lm.tiny_model import make_tiny_model
from ludus.lm.untied_folder import tied_embedding, write_untied_folder
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion

T = TypeVar("T")
PROBE = Probe(tokens=(3, 1, 4, 1, 5), logps=(-1.0, -2.0, -0.5, -3.0))


def main(version: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(version))


@pytest.fixture
def store(tmp_path: Path) -> PolicyStore:
    """Versions 0 to 3 of a tied model with a critic."""
    folder = make_tiny_model(tmp_path / "model", layers=1, width=16, heads=2, kv_heads=1)
    shape = LanguageModelShape(model=LanguageModelConfig(path=str(folder), lora=None), critic=True, games=("g",))
    store = PolicyStore(tmp_path / "run" / "policies")
    for version in range(4):
        weights: dict[str, NDArray[Any]] = {
            "model.embed_tokens.weight": np.full((8, 2), 1.0 + version, np.float32),
            "model.norm.weight": np.full(1, 0.5 * version, np.float32),
            "value_head.weight": np.ones((1, 2), np.float32),
        }
        store.publish(main(version), weights, shape, step=version, beside=probe_files(PROBE.to_json()))
    return store


def a_request(version: int, **fields: Any) -> Request:
    values = {"prompt": (1, 2, 3), "policy": main(version), "sampling": Sampling(max_tokens=6), "seed": 7}
    return Request(**{**values, **fields})


def with_engine(server: FakeVllm, store: PolicyStore, use: Callable[[VllmEngine], Awaitable[T]], **options: Any) -> T:
    async def work() -> T:
        config = VllmEngineConfig(kind="vllm", url=server.url, model="base", **options.pop("config", {}))
        whole = WholeModels(update=config.update, **options)
        engine = VllmEngine(config, store=store, context=CONTEXT, backoff_s=0.001, retries=1, whole=whole)
        try:
            return await use(engine)
        finally:
            await engine.close()

    return asyncio.run(work())


def in_turn(*versions: int) -> Callable[[VllmEngine], Awaitable[list[Completion]]]:
    async def use(engine: VllmEngine) -> list[Completion]:
        return [await engine.generate(a_request(version)) for version in versions]

    return use


def whole_server(**options: Any) -> Any:
    return fake_vllm(processed=True, whole=options)


ONE_CHANGE = ["pause wait", "label none", "reload", "label main@1", "resume"]
SILENT = ["pause wait", "label none", "reload", "label none", "resume"]


def test_each_version_replaces_the_one_before_and_older_requests_get_the_newer_one(store: PolicyStore) -> None:
    with whole_server() as server:
        done = with_engine(server, store, in_turn(1, 1, 0, 2, 1))
        calls = server.whole.calls
    assert [completion.policy.version for completion in done] == [1, 1, 1, 2, 2]
    assert calls == [*SILENT, *ONE_CHANGE, *(call.replace("@1", "@2") for call in ONE_CHANGE)]
    assert done[0].logps.tolist() == done[1].logps.tolist() != done[3].logps.tolist()
    assert not done[0].values.any()


def test_in_flight_nobody_waits_for_replies(store: PolicyStore) -> None:
    with whole_server() as server:
        with_engine(server, store, in_turn(1), config={"update": "in_flight"})
        assert server.whole.calls.count("pause keep") == 2


def test_what_is_measured_is_the_very_version(store: PolicyStore) -> None:
    with whole_server() as server:
        done = with_engine(server, store, in_turn(3, 1, 2), is_exact=True)
    assert [completion.policy.version for completion in done] == [3, 1, 2]


def test_two_explorers_change_a_server_once(store: PolicyStore) -> None:
    async def both(engine: VllmEngine) -> None:
        await asyncio.gather(*(engine.generate(a_request(1, seed=seed)) for seed in range(20)))

    with whole_server() as server:
        with_engine(server, store, both)
        with_engine(server, store, both)
        assert server.whole.calls.count("label main@1") == 1


def test_a_restarted_or_paused_server_gets_its_weights_again(store: PolicyStore) -> None:
    async def use(engine: VllmEngine) -> None:
        await engine.generate(a_request(2))
        server.whole.restart()
        completion = await engine.generate(a_request(2))
        assert completion.policy == main(2)

    with whole_server() as server:
        with_engine(server, store, use)
        server.whole.is_paused = True  # whoever paused it is gone
        with_engine(server, store, in_turn(2))
        assert not server.whole.is_paused


# -- the output head, and the probe -----------------------------------------------------------------------------------


def test_the_server_gets_the_head_as_a_tensor_of_its_own_and_no_critic(store: PolicyStore) -> None:
    with whole_server() as server:
        with_engine(server, store, in_turn(3))
        given = server.whole.folders[-1]
    assert given == {"model.embed_tokens.weight": (8, 2), "model.norm.weight": (1,), "lm_head.weight": (8, 2)}
    (folder,) = (path for path in (store.directory.parent / "serving").glob("*/*") if path.is_dir())
    head = load_file(folder / "head.safetensors")["lm_head.weight"]
    assert (head == 4.0).all()
    assert (store.load(main(3)).weights["model.embed_tokens.weight"] == 4.0).all()


def test_a_server_that_keeps_its_head_is_found_out_before_anything_is_written(store: PolicyStore) -> None:
    with whole_server(is_tied=True) as server, pytest.raises(WrongWeights) as caught:
        with_engine(server, store, in_turn(1))
    assert "keeps its old output head" in str(caught.value)
    assert "a folder that `ludus model untie` has written" in str(caught.value)
    assert not [body for body in server.bodies if "token_ids" in body]


def test_a_server_with_other_weights_stops_the_run_with_one_sentence(store: PolicyStore) -> None:
    with whole_server(lies=0.3) as server, pytest.raises(WrongWeights) as caught:
        with_engine(server, store, in_turn(1))
    assert "does not have the weights of main@1 that it was given" in str(caught.value)
    assert "0.3 nats a token from the trainer, and explore.engine.most_mismatch is 0.1" in str(caught.value)
    with whole_server(lies=0.3) as server:
        with_engine(server, store, in_turn(1), config={"most_mismatch": 0.5})


def test_a_server_without_the_routes_is_told_what_it_needs(store: PolicyStore) -> None:
    with fake_vllm() as server, pytest.raises(WrongWeights, match=r"it needs vLLM 0\.32, VLLM_SERVER"):
        with_engine(server, store, in_turn(1))


def test_a_server_of_another_release_is_refused_before_it_gets_anything(store: PolicyStore) -> None:
    with whole_server(release="0.11.2") as server, pytest.raises(WrongWeights, match=r"is vLLM 0\.11\.2; whole models"):
        with_engine(server, store, in_turn(1))
    assert not server.whole.calls


def test_a_cut_file_never_reaches_the_server(store: PolicyStore) -> None:
    file = store.path(main(1)) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with whole_server() as server, pytest.raises(PolicyError, match="main@1: CorruptRecord"):
        with_engine(server, store, in_turn(1))
    assert "reload" not in server.whole.calls


def test_a_head_of_its_own_is_left_alone(tmp_path: Path, store: PolicyStore) -> None:
    shape = store.shape(main(0))
    weights = {"lm_head.weight": np.ones((8, 2), np.float32), "model.embed_tokens.weight": np.ones((8, 2), np.float32)}
    other = PolicyStore(tmp_path / "other")
    other.publish(main(0), {**weights, "value_head.weight": np.ones((1, 2), np.float32)}, shape, step=0)
    assert tied_embedding(other.path(main(0))) is None
    folder = write_untied_folder(other.path(main(0)), tmp_path / "room")
    assert not (folder / "head.safetensors").exists()
    assert set(load_file(folder / "model.safetensors")) == set(weights)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorruptRecord, match="no output head"):
        tied_embedding(tmp_path / "empty")


def test_a_probe_that_is_none_is_refused(tmp_path: Path) -> None:
    assert read_probe(tmp_path) is None
    (tmp_path / "probe.json").write_text(json.dumps({"tokens": [1, 2], "logps": [0.1, 0.2]}))
    with pytest.raises(CorruptRecord, match="is no probe"):
        read_probe(tmp_path)


# -- versions, places, command line -----------------------------------------------------------------------------------


def test_versions_of_tokens_are_read_and_checked() -> None:
    spans = [{"start": 0, "end": 3, "version": "a"}, {"start": 3, "end": 5, "version": "b"}]
    answer = {"choices": [{"weight_versions": spans}]}
    assert read_versions(answer, 5) == [("a", 3), ("b", 2)]
    with pytest.raises(PolicyError, match="of 6 tokens"):
        read_versions(answer, 6)
    with pytest.raises(PolicyError, match=r"is it 0\.32"):
        read_versions({"choices": [{}]}, 1)


def test_places_follow_what_the_server_makes_wait() -> None:
    async def work() -> None:
        window = Window(100)
        gates = [asyncio.Event() for _ in range(120)]

        async def visit(gate: asyncio.Event) -> None:
            async with window.place():
                await gate.wait()

        visits = [asyncio.ensure_future(visit(gate)) for gate in gates]
        await asyncio.sleep(0)
        assert window.inside == 64
        window.adapt(64, 0)
        await asyncio.sleep(0)
        assert window.inside == window.limit == 80
        for _ in range(30):
            window.adapt(10, 40)
        assert window.limit == LEAST
        visits[-1].cancel()
        for gate in gates:
            gate.set()
        await asyncio.gather(*visits, return_exceptions=True)
        assert window.inside == 0
        async with window.place():
            assert window.inside == 1

    asyncio.run(work())


def test_a_server_of_whole_models_has_the_routes_for_them() -> None:
    order = ServerOrder(number=0, command=["vllm", "serve"], model="m", served="b", lora_rank=None)
    line = command_line(order, "/m", 1)
    assert line[3:5] == ["--enable-prompt-tokens-details", "--enable-scale-out"]
    assert environment_of(order)["VLLM_SERVER_DEV_MODE"] == "1"


def test_an_untied_model_computes_the_same(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    source = make_tiny_model(tmp_path / "tied", layers=1, width=16, heads=2, kv_heads=1)
    tied, own = (
        AutoModelForCausalLM.from_pretrained(folder)
        for folder in (source, write_untied_folder(source, tmp_path / "own"))
    )
    tokens = torch.arange(9)[None]
    assert torch.equal(tied(tokens).logits, own(tokens).logits)
    assert own.lm_head.weight is not own.model.embed_tokens.weight


def test_spans_are_what_a_completion_says() -> None:
    zeros = np.zeros(3, np.float32)
    completion = Completion(
        tokens=np.ones(3, np.int32), logps=zeros, values=zeros, policy=main(4), finish="stop", versions=None
    )
    assert completion.version_of_each().tolist() == [4, 4, 4]
