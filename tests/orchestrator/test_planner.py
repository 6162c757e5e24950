"""The planner: sizes as transformers counts them, peaks as others have published them, and what it says of misfits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.config import RunConfig, build_config
from ludus.errors import ConfigError
from ludus.lm.model_sizes import DENSE, EXPERTS, KNOWN, ModelSizes, read_sizes, sizes_of
from ludus.orchestrator.planner.advice import make_plan
from ludus.orchestrator.planner.gpu_bytes import HEAD_BYTES, TABLES, Machine, trainer_bytes
from ludus.orchestrator.planner.report import plan_run, read_machine

GIB = 2**30
LORA = {"rank": 16}
SMOLLM3 = ModelSizes(
    layers=36,
    width=2048,
    queries=2048,
    keys=512,
    head=128,
    inner=11_008,
    vocabulary=128_256,
    is_tied=True,
    context=65_536,
)
QWEN3_30B_A3B = ModelSizes(
    layers=48,
    width=2048,
    queries=4096,
    keys=512,
    head=128,
    inner=8 * 768,
    vocabulary=151_936,
    is_tied=False,
    context=262_144,
    experts=128,
    expert_inner=768,
    has_head_norms=True,
)

PUBLISHED = [
    # known while the planner was written
    ("Qwen/Qwen3-0.6B", 1, 16_384, None, 12.53),
    ("Qwen/Qwen3-4B", 8, 16_384, None, 17.1),
    ("Qwen/Qwen3-4B", 1, 16_384, LORA, 23.3),
    # looked up when it was done
    ("Qwen/Qwen3-0.6B", 1, 65_536, None, 19.56),
    ("Qwen/Qwen3-4B", 8, 65_536, None, 36.10),
    ("Qwen/Qwen3-4B", 4, 16_384, LORA, 12.92),
    (SMOLLM3, 1, 16_384, LORA, 18.91),
    (SMOLLM3, 8, 65_536, LORA, 24.54),
    ("meta-llama/Llama-3.1-8B-Instruct", 8, 16_384, LORA, 16.56),
    (QWEN3_30B_A3B, 8, 16_384, None, 74.59),
]
"""Peaks in GiB of prime-rl's trainer on H100 and B200 (benchmarks/baselines), with activation checkpointing."""


def config(path: str = "Qwen/Qwen3-4B", *, lora: Any = None, explore: Any = None, **train: Any) -> RunConfig:
    model = {"path": path, "lora": lora, **train.pop("model", {})}
    return build_config(
        {
            "name": "x",
            "tasks": [{"path": "ludus/arithmetic?digits=2&count=500", "name": "sums"}],
            "rewards": [{"kind": "exact"}],
            "policy": {"model": model},
            "explore": {"group": 8, "games_in_flight": 64, **(explore or {})},
            "train": {"algorithm": {"preset": "grpo"}, "activation_checkpointing": True, **train},
        },
        [],
    )


def peak(sizes: ModelSizes, gpus: int, tokens: int, lora: Any) -> float:
    wanted = config(lora=lora, trainers=gpus, tokens_per_micro_batch=tokens, model={"context": tokens})
    return trainer_bytes(wanted, replace(sizes, context=10**6)).peak / GIB


@pytest.mark.parametrize(("model", "gpus", "tokens", "lora", "published"), PUBLISHED)
def test_peaks_are_within_15_percent_of_published_ones(
    model: str | ModelSizes, gpus: int, tokens: int, lora: Any, published: float
) -> None:
    sizes = model if isinstance(model, ModelSizes) else KNOWN[model]
    assert abs(peak(sizes, gpus, tokens, lora) / published - 1) <= 0.15


def test_small_adapters_on_many_gpus_are_planned_too_small() -> None:
    """The one published peak of eleven that is further away: 9.95 GiB, where the planner says 2 GiB less."""
    assert peak(KNOWN["meta-llama/Llama-3.2-3B-Instruct"], 8, 16_384, LORA) / 9.95 == pytest.approx(0.80, abs=0.02)


# -- sizes -------------------------------------------------------------------------------------------------------------

FAMILIES = {
    "llama": ("LlamaConfig", {}),
    "mistral": ("MistralConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 32, "tie_word_embeddings": True}),
    "smollm3": ("SmolLM3Config", {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "head_dim": 32},
    ),
}


def test_all_families_are_compared() -> None:
    assert set(FAMILIES) == {*DENSE, *EXPERTS}


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_those_that_transformers_makes(family: str) -> None:
    import torch
    import transformers

    name, options = FAMILIES[family]
    settings = getattr(transformers, name)(
        vocab_size=300,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        **options,
    )
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(settings)
    counted = sum(parameter.numel() for parameter in model.parameters())
    assert read_sizes(json.loads(settings.to_json_string()), family).parameters == counted


def test_adapters_are_counted_as_they_are_made() -> None:
    from ludus.config import LanguageModelConfig, LoraConfig
    from ludus.lm.adapters import init_adapter
    from ludus.lm.language_models import load_language_model

    model = load_language_model(LanguageModelConfig(path="ludus/mini"))
    adapter = init_adapter(model.model, LoraConfig(rank=4), seed=0)
    assert sizes_of("ludus/mini").adapter_parameters(4) == sum(array.size for array in adapter.values())


@pytest.mark.parametrize(
    ("name", "billions"), [("Qwen/Qwen3-8B", 8.19), ("Qwen/Qwen3-32B", 32.76), ("Qwen/Qwen2.5-7B-Instruct", 7.62)]
)
def test_known_models_have_the_parameters_of_their_cards(name: str, billions: float) -> None:
    assert round(KNOWN[name].parameters / 1e9, 2) == billions


def test_pieces_of_logits_are_those_of_the_trainer() -> None:
    from ludus.train import torch_head

    assert (torch_head.HEAD_BYTES["cuda"], torch_head._TABLES) == (HEAD_BYTES, TABLES)


# -- what it says ------------------------------------------------------------------------------------------------------


def test_a_plan_that_fits_says_so_with_all_its_parts() -> None:
    wanted = config(trainers=4, explore={"engine": {"kind": "vllm", "servers": 2, "tensor_parallel": 2}}, lora=LORA)
    rows, problem = plan_run(wanted, read_machine("gpus=8x80GB,host=256GB"))
    assert problem == ""
    told = dict(rows)
    assert told["plan"] == "fits"
    assert told["GPUs"] == "8 of 80.0 GiB: 4 for trainers, 4 for vLLM servers"
    assert told["model"] == "4.022 billion parameters, 33.0 million trained (LoRA of rank 16)"
    assert told["  KV cache"].endswith("tokens at 73,728 bytes")


def test_a_plan_that_does_not_fit_says_why_and_what_to_try() -> None:
    wanted = config("Qwen/Qwen3-8B", activation_checkpointing=False)
    _, problem = plan_run(wanted, read_machine("gpus=4x80GB"))
    assert problem.startswith("does not fit, because a trainer takes ")
    assert "most of it is weights, gradient and optimizer (122.1 GiB)" in problem
    assert "try train.activation_checkpointing: true and train.trainers: 3, or" in problem
    machine = Machine(gpus=4, gpu_bytes=80 * GIB)
    better = config("Qwen/Qwen3-8B", trainers=3)
    assert make_plan(better, machine, KNOWN["Qwen/Qwen3-8B"]).problems == ()


@pytest.mark.parametrize(
    ("explore", "machine", "problem"),
    [
        (
            {"engine": {"kind": "vllm", "servers": 2}},
            "gpus=2x80GB",
            "the config wants 3 GPUs (1 for trainers and 2 for vLLM servers) and there are 2",
        ),
        (
            {"engine": {"kind": "vllm", "servers": 1}},
            "gpus=2x24GB",
            "a vLLM server has room for ",
        ),
        ({"workers": 8}, "gpus=1x80GB,host=64GB", "of host memory and there are 64.0 GiB"),
    ],
)
def test_each_misfit_has_its_sentence(explore: dict[str, Any], machine: str, problem: str) -> None:
    wanted = config("Qwen/Qwen3-8B", lora=LORA, explore=explore, model={"dtype": "bfloat16", "context": 40_960})
    assert problem in plan_run(wanted, read_machine(machine))[1]


@pytest.mark.parametrize("text", ["8x80GB", "gpus=0x80GB", "gpus=8x80", "gpus=8x80GB,disk=1GB"])
def test_what_is_no_machine_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no machine; write gpus=8x80GB"):
        read_machine(text)


def test_sizes_come_from_a_config_json_and_nothing_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nobody/nothing is not on this machine.*--model-config FILE"):
        sizes_of("nobody/nothing")
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "gpt2"}')
    with pytest.raises(ConfigError, match="is of the family 'gpt2'; the planner knows llama"):
        sizes_of("x", file)
    file.write_text('{"model_type": "llama", "hidden_size": 8}')
    with pytest.raises(ConfigError, match="has sizes that cannot be read: KeyError: 'num_attention_heads'"):
        sizes_of("x", file)
    file.write_text("[")
    with pytest.raises(ConfigError, match="cannot be read as JSON"):
        sizes_of("x", file)


def test_the_command_ends_with_2_where_a_model_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "name: x\ntasks: [{path: 'ludus/arithmetic?digits=2&count=500', name: sums}]\nrewards: [{kind: exact}]\n"
        "policy: {model: {path: Qwen/Qwen3-0.6B}}\nexplore: {group: 8}\ntrain: {algorithm: {preset: grpo}}\n"
    )
    fits = CliRunner().invoke(app, ["check", str(file), "--plan", "gpus=1x80GB"])
    assert fits.exit_code == 0
    assert fits.stdout.splitlines()[-1].split() == ["plan", "fits"]
    misfit = CliRunner().invoke(app, ["check", str(file), "policy.model.lora=null", "--plan", "gpus=1x8GB"])
    assert misfit.exit_code == 2
    assert misfit.stderr.startswith("does not fit, because a trainer takes ")
