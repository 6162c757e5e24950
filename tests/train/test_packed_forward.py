"""Packed rows give what padded ones give, for every kind of model; and the head keeps within its bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ludus.config import LoraConfig
from ludus.lm.adapters import adapter_shapes
from ludus.records import Experiences
from ludus.train import torch_head
from ludus.train.token_rows import targets_of
from ludus.train.torch_forward import Forward
from ludus.train.torch_head import HEAD_BYTES, token_scores
from ludus.train.torch_packed import PackedForward, cut_by_length
from ludus.train.torch_state import Layout, Leaves

from .conftest import token_experiences
from .padded_forward import PaddedForward
from .test_torch_forward import LLAMA3, SIZES

LORA = LoraConfig(rank=3, alpha=4.5)
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 16}
GQA = {"num_key_value_heads": 2}
MODELS: dict[str, Callable[[], Any]] = {
    "qwen3, tied": lambda: transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(**SIZES, **GQA, head_dim=16, tie_word_embeddings=True)
    ),
    "llama 3": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SIZES, **GQA, rope_parameters=LLAMA3, tie_word_embeddings=False)
    ),
    "smollm3": lambda: transformers.SmolLM3ForCausalLM(
        transformers.SmolLM3Config(
            **SIZES, **GQA, no_rope_layers=[1, 0], pad_token_id=0, bos_token_id=1, eos_token_id=2
        )
    ),
    "qwen3 with experts": lambda: transformers.Qwen3MoeForCausalLM(
        transformers.Qwen3MoeConfig(**SIZES, **GQA, **EXPERTS)
    ),
    "a window of three": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(**SIZES, **GQA, sliding_window=3)
    ),
    "gpt-2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=211, n_embd=32, n_layer=2, n_head=2, n_positions=64)
    ),
    "capped logits": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**SIZES, **GQA, head_dim=16, final_logit_softcapping=5.0)
    ),
    "recurrent": lambda: transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=211, hidden_size=32, num_hidden_layers=2, state_size=4)
    ),
}


def make(kind: str) -> Any:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = MODELS[kind]().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" in name or "bias" in name or "A_log" in name or name.endswith(".D"):
            parameter.add_(0.1 * torch.randn_like(parameter))
        else:
            parameter.mul_(2.0)
    return model


def random_leaves(model: Any, lora: LoraConfig | None) -> Leaves:
    if lora is None:
        tensors = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    else:
        random = np.random.default_rng(0)
        shapes = adapter_shapes(model, lora)
        tensors = {name: random.normal(scale=0.2, size=shape).astype(np.float32) for name, shape in shapes.items()}
    layout = Layout({name: tuple(tensor.shape) for name, tensor in tensors.items()})
    return Leaves(layout, layout.pack(tensors))


def run(forward: Forward, leaves: Leaves, rows: Experiences) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Scores, and the gradient of a mixture of them."""
    scores = forward.score(rows, targets_of(rows), leaves, temperature=0.7)
    hidden = scores.hidden.index_select(0, scores.place)
    weight = torch.randn(len(scores.logp), generator=torch.Generator().manual_seed(1)) / len(scores.logp)
    loss = (weight * scores.logp).sum() + (weight.roll(1) * scores.entropy).sum() + (hidden.mean(1) * weight).sum()
    leaves.clear_gradient()
    loss.backward()
    forward.release()
    found = {"logp": scores.logp, "entropy": scores.entropy, "hidden": hidden}
    return {name: x.detach().numpy() for name, x in found.items()}, leaves.layout.unpack(leaves.gradient)


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        np.testing.assert_allclose(found[name], x, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "lora"),
    [
        pytest.param(kind, lora, id=f"{kind}, {'full' if lora is None else 'lora'}")
        for kind in MODELS
        for lora in (None, LORA)
        if (kind, lora) != ("recurrent", LORA)  # its layers read each other's matrices past the hooks of adapters
    ],
)
def test_packed_is_padded_in_values_and_gradients(kind: str, lora: LoraConfig | None) -> None:
    model, rows = make(kind), token_experiences(rows=6, groups=3, turns=2)
    expected = run(PaddedForward(model, lora=lora), random_leaves(model, lora), rows)
    forward = PackedForward(model, lora=lora)
    found = run(forward, random_leaves(model, lora), rows)
    assert_close(found[0], expected[0])
    assert_close(found[1], expected[1])
    assert max(np.abs(x).max() for x in found[1].values()) > 1e-3


@pytest.mark.parametrize("kind", ["qwen3, tied", "qwen3 with experts"])
def test_checkpointing_gives_the_same_gradient(kind: str) -> None:
    model, rows = make(kind), token_experiences(rows=5)
    for lora in (None, LORA):
        plain = run(PackedForward(make(kind), lora=lora), random_leaves(model, lora), rows)
        thrifty = run(PackedForward(make(kind), lora=lora, checkpointing=True), random_leaves(model, lora), rows)
        assert_close(thrifty[1], plain[1])


def test_without_weights_the_base_model_answers_before_and_after() -> None:
    model, rows = make("qwen3, tied"), token_experiences(rows=4)
    for lora in (None, LORA):
        forward, leaves = PackedForward(model, lora=lora), random_leaves(model, lora)
        leaves.vector.data.mul_(1.5)
        before, between, after = (
            forward.score(rows, targets_of(rows), weights, temperature=1.0) for weights in (None, leaves, None)
        )
        assert torch.equal(before.logp, after.logp)
        assert not torch.equal(before.logp, between.logp)
        assert not after.logp.requires_grad


def test_what_follows_the_last_target_is_not_computed() -> None:
    rows = token_experiences(rows=3, turns=1)
    mask = np.zeros_like(rows.steps["mask"])
    mask[rows.offsets[:-1] + 3] = True
    model, changed = make("qwen3, tied"), rows.steps["action"].copy()
    changed[rows.offsets[1:] - 1] = 210
    forward = PackedForward(model, lora=None)
    one, other = (
        forward.score(some, targets_of(some), None, temperature=1.0).logp
        for some in (rows.replace(steps={"mask": mask}), rows.replace(steps={"mask": mask, "action": changed}))
    )
    assert torch.equal(one, other)


def test_parts_hold_what_they_may() -> None:
    lengths = np.array([5, 9, 2, 7, 30, 1, 4])
    parts = cut_by_length(lengths, 12)
    assert sorted(np.concatenate(parts).tolist()) == list(range(7))
    assert all(lengths[part].sum() <= 12 or len(part) == 1 for part in parts)
    assert len(cut_by_length(lengths, 1000)) == 1


class LiveBytes(TorchDispatchMode):
    """The most bytes that new tensors held at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        given = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._known | given:
                    self._grow(storage)
        self.most = max(self.most, self.now)
        return made

    def _grow(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        self._known.add(key)
        self.now += size

        def shrink() -> None:
            self._known.discard(key)
            self.now -= size

        weakref.finalize(storage, shrink)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_head_keeps_within_its_bytes_at_a_large_vocabulary(dtype: torch.dtype) -> None:
    vocabulary, width, tokens = 151_936, 8, 200
    torch.manual_seed(0)
    hidden = torch.randn(tokens, width, dtype=dtype, requires_grad=True)
    head = torch.randn(vocabulary, width, dtype=dtype, requires_grad=True)
    place, token = torch.arange(tokens), torch.randint(vocabulary, (tokens,))
    with LiveBytes() as memory:
        logp, entropy = token_scores(hidden, head, place, token, temperature=0.8)
        (logp.sum() + entropy.sum()).backward()
    gradients = vocabulary * width * (4 + head.element_size())
    small = 1 << 20
    assert memory.most < HEAD_BYTES["cpu"] + gradients + small
    assert memory.most > HEAD_BYTES["cpu"] // 2, "the measure sees nothing"
    assert 4 * vocabulary * tokens > HEAD_BYTES["cpu"], "one table alone would be more"


def test_the_gradient_of_a_head_in_half_precision_is_summed_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_head.HEAD_BYTES, "cpu", 211 * 16 * 4)
    torch.manual_seed(0)
    hidden, head = torch.randn(1200, 16).bfloat16(), torch.randn(211, 16).bfloat16()
    place, token = torch.arange(1200), torch.randint(211, (1200,))

    def gradient(dtype: torch.dtype) -> torch.Tensor:
        weight = head.to(dtype).requires_grad_()
        logp, _ = token_scores(hidden.to(dtype), weight, place, token, temperature=1.0)
        logp.sum().backward()
        assert weight.grad is not None
        return weight.grad.float()

    exact, found = gradient(torch.float32), gradient(torch.bfloat16)
    assert torch.linalg.vector_norm(found - exact) / torch.linalg.vector_norm(exact) < 0.005
