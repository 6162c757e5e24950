"""The fast forward pass computes what transformers computes: values and gradients, for every family of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from ludus.config import LoraConfig
from ludus.errors import ConfigError
from ludus.lm import compiled_training
from ludus.lm.adapters import adapter_shapes
from ludus.records import Experiences
from ludus.train import torch_head
from ludus.train.token_rows import targets_of
from ludus.train.torch_decoder import DecoderForward
from ludus.train.torch_forward import Forward
from ludus.train.torch_forwards import build_forward
from ludus.train.torch_packed import PackedForward
from ludus.train.torch_state import Layout, Leaves

from .conftest import token_experiences
from .padded_forward import PaddedForward

SIZES = {
    "vocab_size": 211,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
MODELS: dict[str, Callable[[], Any]] = {
    "qwen3": lambda: transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True)
    ),
    "qwen2, with biases": lambda: transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(**SIZES, num_key_value_heads=2, tie_word_embeddings=False)
    ),
    "llama, all heads": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SIZES, num_key_value_heads=4, tie_word_embeddings=True)
    ),
    "llama 3, one key head, biases everywhere": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            **SIZES, num_key_value_heads=1, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3
        )
    ),
    "mistral, scaled positions": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(
            **SIZES,
            num_key_value_heads=2,
            sliding_window=None,
            rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
        )
    ),
}


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything holds with compiled kernels, and where there are none."""
    torch.set_num_threads(1)
    if request.param == "plain":
        monkeypatch.setattr(compiled_training, "kernels", lambda: None)
    elif compiled_training.kernels() is None:
        pytest.skip("there is no C compiler")
    return str(request.param)


def make(kind: str) -> Any:
    torch.manual_seed(0)
    model = MODELS[kind]().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" in name or "bias" in name:
            parameter.add_(0.3 * torch.randn_like(parameter))
        else:
            parameter.mul_(4.0)  # far from the beginning, where everything is nearly linear
    return model


def random_leaves(model: Any, forward: Forward, lora: LoraConfig | None) -> Leaves:
    shapes = (
        {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
        if lora is None
        else dict(adapter_shapes(model, lora))
    )
    layout = Layout(shapes, forward.fused)
    if lora is None:
        tensors = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    else:
        random = np.random.default_rng(0)
        tensors = {name: random.normal(scale=0.2, size=shape).astype(np.float32) for name, shape in shapes.items()}
    return Leaves(layout, layout.pack(tensors))


def run(
    forward: Forward, leaves: Leaves, rows: Experiences, temperature: float = 0.7
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Scores, and the gradient of a mixture of them."""
    targets = targets_of(rows)
    scores = forward.score(rows, targets, leaves, temperature=temperature)
    hidden = scores.hidden.index_select(0, scores.place)
    random = torch.Generator().manual_seed(1)
    weight = torch.randn(len(scores.logp), generator=random)
    loss = (weight * scores.logp).sum() + (weight.roll(1) * scores.entropy).sum() + (hidden.mean(1) * weight).sum()
    leaves.clear_gradient()
    loss.backward()
    found = {"logp": scores.logp, "entropy": scores.entropy, "hidden": hidden}
    return {name: x.detach().numpy() for name, x in found.items()}, leaves.layout.unpack(leaves.gradient)


def fast_forward(model: Any, lora: LoraConfig | None, *, checkpointing: bool = False) -> Forward:
    forward = build_forward(model, context=128, lora=lora, checkpointing=checkpointing)
    assert isinstance(forward, DecoderForward)
    return forward


def assert_alike(model: Any, lora: LoraConfig | None, rows: Experiences) -> None:
    fast, plain = fast_forward(model, lora), PaddedForward(model, lora=lora)
    found, found_gradient = run(fast, random_leaves(model, fast, lora), rows)
    expected, expected_gradient = run(plain, random_leaves(model, plain, lora), rows)
    for name, x in expected.items():
        np.testing.assert_allclose(found[name], x, rtol=1e-4, atol=2e-5, err_msg=name)
    assert found_gradient.keys() == expected_gradient.keys()
    for name, x in expected_gradient.items():
        scale = np.abs(x).max() + 1e-3
        np.testing.assert_allclose(found_gradient[name] / scale, x / scale, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "lora",
    [
        pytest.param(None, id="full"),
        pytest.param(LoraConfig(rank=3, alpha=6.0), id="lora"),
        pytest.param(LoraConfig(rank=3, alpha=4.5, targets=("q_proj", "v_proj", "down_proj")), id="some layers"),
    ],
)
def test_values_and_gradients_are_those_of_transformers(kind: str, lora: LoraConfig | None) -> None:
    assert_alike(make(kind), lora, token_experiences(rows=7, groups=3, turns=3))


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ({"rows": 1, "groups": 1}, "one sequence"),
        ({"rows": 5, "groups": 5}, "no shared prompt"),
        ({"rows": 6, "groups": 2, "longest": 2}, "even branches"),
        ({"rows": 6, "groups": 1, "prompt": 1}, "a prompt of one token"),
        ({"rows": 4, "groups": 2, "turns": 4, "prompt": 9}, "many turns"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_every_shape_of_prefix_tree_gives_the_same(rows: dict[str, int], why: str) -> None:
    assert_alike(make("qwen3"), None, token_experiences(**rows))


def test_uneven_prompts_and_single_tokens_give_the_same() -> None:
    parts = [token_experiences(rows=3, groups=2, prompt=prompt, seed=prompt) for prompt in (2, 7)]
    rows = Experiences.concatenate(parts)
    assert_alike(make("qwen3"), None, rows)
    mask = np.zeros_like(rows.steps["mask"])
    mask[rows.offsets[:-1] + 2] = True
    assert_alike(make("qwen3"), LoraConfig(rank=2), rows.replace(steps={"mask": mask}))


def test_a_table_of_logits_in_pieces_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_head.HEAD_BYTES, "cpu", 211 * 3 * 16)
    assert_alike(make("qwen3"), None, token_experiences(rows=4))


def test_long_sequences_give_the_same() -> None:
    """Longer than a tile of queries, with a trunk that is too."""
    rows = token_experiences(rows=3, groups=2, prompt=37, longest=60, seed=4)
    assert_alike(make("qwen3"), None, rows)


def test_compiled_kernels_are_used_where_they_fit_and_only_there(way: str) -> None:
    x = torch.zeros(2, 32)
    assert compiled_training.fits(x, 32) == (way == "compiled")
    assert not compiled_training.fits(x.bfloat16(), 32)
    assert not compiled_training.fits(x, 20)
    assert not compiled_training.fits(x.to("meta"), 32)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert not compiled_training.fits(x, 32)
    finally:
        torch.set_num_threads(threads)


def test_checkpointing_gives_the_same_gradient() -> None:
    model, rows = make("qwen3"), token_experiences(rows=5)
    for lora in (None, LoraConfig(rank=2)):
        gradients = []
        for checkpointing in (False, True):
            forward = fast_forward(model, lora, checkpointing=checkpointing)
            gradients.append(run(forward, random_leaves(model, forward, lora), rows)[1])
        for name, x in gradients[0].items():
            np.testing.assert_array_equal(gradients[1][name], x)


def test_without_weights_the_base_model_answers() -> None:
    model, rows = make("qwen3"), token_experiences(rows=4)
    forward = fast_forward(model, LoraConfig(rank=2))
    targets = targets_of(rows)
    before = forward.score(rows, targets, None, temperature=1.0)
    forward.score(rows, targets, random_leaves(model, forward, LoraConfig(rank=2)), temperature=1.0)
    after = forward.score(rows, targets, None, temperature=1.0)
    plain = PaddedForward(model, lora=None).score(rows, targets, None, temperature=1.0)
    assert torch.equal(before.logp, after.logp)
    torch.testing.assert_close(after.logp, plain.logp, rtol=1e-4, atol=1e-5)
    assert not after.logp.requires_grad


def test_a_shared_prompt_is_computed_once() -> None:
    from ludus.lm.prefix_tree import build_prefix_tree

    rows = token_experiences(rows=8, groups=2, prompt=50, longest=4)
    tree = build_prefix_tree(rows, targets_of(rows).elements)
    sampled = int(rows.steps["mask"].sum())
    assert len(tree.tokens) == 2 * 50 + sampled - 8
    assert len(tree.wanted) == sampled - 8 + 2


def test_parts_keep_families_together_and_hold_what_they_may() -> None:
    from ludus.lm.prefix_tree import build_prefix_tree

    rows = token_experiences(rows=40, groups=5, prompt=20, longest=6)
    forward = fast_forward(make("qwen3"), None)
    parts = forward.parts(rows, 60)
    assert sorted(np.concatenate(parts).tolist()) == list(range(40))
    sizes = [
        len(build_prefix_tree(piece, targets_of(piece).elements).tokens)
        for piece in (rows.take(part) for part in parts)
    ]
    assert max(sizes) <= 60
    assert len(forward.parts(rows, 10_000)) == 1
    assert [len(part) for part in forward.parts(rows, 1)] == [1] * 40


def test_models_of_other_kinds_take_the_way_of_transformers() -> None:
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=211, n_embd=32, n_layer=1, n_head=2))
    assert isinstance(build_forward(gpt2, context=64, lora=None), PackedForward)
    with pytest.raises(
        ConfigError, match=r"train\.forward: the decoder does not compute this model \(the family 'gpt2'"
    ):
        build_forward(gpt2, context=64, lora=None, kind="decoder")
    window = transformers.MistralForCausalLM(
        transformers.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=8)
    )
    assert isinstance(build_forward(window, context=128, lora=None), PackedForward)
    assert isinstance(build_forward(window, context=8, lora=None), DecoderForward)
    assert isinstance(build_forward(window, context=8, lora=None, kind="packed"), PackedForward)
