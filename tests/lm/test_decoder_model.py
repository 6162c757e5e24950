"""The decoder computes what transformers computes, however the rows are cut and mixed, and says what it cannot."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))

from engine_models import CONTEXT, FAMILIES, LORA, SIZES, random_adapter, random_gpt2, random_model, with_peft
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from ludus.errors import ConfigError
from ludus.lm.architectures import NotCovered, read_architecture
from ludus.lm.compiled_generation import CompiledGeneration
from ludus.lm.decoder_model import DecoderModel
from ludus.lm.kv_cache import BLOCK
from ludus.lm.rows import Rows, Span
from ludus.lm.torch_generation import TorchGeneration

TOKENS = np.random.default_rng(0).integers(0, 259, (3, 100))
BLOCKS = -(-CONTEXT // BLOCK)
TABLES = (1 + np.random.default_rng(1).permutation(3 * BLOCKS)).reshape(3, BLOCKS).astype(np.int32)
LENGTHS = (100, 37, 64)
"""Of the sequences; odd and even, at the edge of a block and within."""


def rows_of(chunks: Sequence[tuple[int, int, int]], weights: Any) -> Rows:
    """Rows for (sequence, start, stop) of `TOKENS`."""
    columns = [
        (TOKENS[sequence, start:stop], np.arange(start, stop), np.full(stop - start, sequence))
        for sequence, start, stop in chunks
    ]
    tokens, positions, sequences = (np.concatenate(column) for column in zip(*columns, strict=True))
    count = len(tokens)
    return Rows(
        tokens=tokens,
        positions=positions.astype(np.int32),
        sequences=sequences.astype(np.int32),
        tables=TABLES,
        wanted=None,
        spans=(Span(weights=weights, start=0, stop=count, first_wanted=0, last_wanted=count),),
    )


def expected(model: Any, sequence: int) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.from_numpy(TOKENS[sequence : sequence + 1, : LENGTHS[sequence]])).logits[0]


def computed(model: DecoderModel, weights: Any) -> list[torch.Tensor]:
    """Logits of all sequences: prompts in two uneven chunks, the last tokens one by one, all mixed."""
    assert model.cache.blocks > 3 * BLOCKS
    found: list[list[torch.Tensor]] = [[], [], []]
    steps = [[(0, 0, 50), (1, 0, 20), (2, 0, 59)], [(0, 50, 95), (1, 20, 32), (2, 59, 60)]]
    steps += [[(0, 95 + i, 96 + i), (1, 32 + i, 33 + i), (2, 60 + i, min(61 + i, 64))] for i in range(5)]
    with torch.inference_mode():
        for step in steps:
            present = [chunk for chunk in step if chunk[2] > chunk[1]]
            logits, _ = model.forward(rows_of(present, weights))
            pieces = logits.split([stop - start for _, start, stop in present])
            for (sequence, _, _), piece in zip(present, pieces, strict=True):
                found[sequence].append(piece)
    return [torch.cat(pieces) for pieces in found]


@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_chunks_and_single_tokens_of_many_sequences_give_transformers_logits(kind: str) -> None:
    model = random_model(kind)
    made = DecoderModel(model, context=CONTEXT, lora=None)
    for sequence, logits in enumerate(computed(made, made.prepare({}))):
        torch.testing.assert_close(logits, expected(model, sequence), atol=2e-5, rtol=0)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("kind", ["qwen3", "llama with biases"])
def test_adapters_merged_or_beside_give_what_peft_gives(kind: str, merge: bool) -> None:
    model = random_model(kind)
    tensors = random_adapter(model, 5)
    made = DecoderModel(model, context=CONTEXT, lora=LORA, merge=merge)
    adapted = with_peft(model, tensors)
    for sequence, logits in enumerate(computed(made, made.prepare(tensors))):
        torch.testing.assert_close(logits, expected(adapted, sequence), atol=2e-5, rtol=0)


def test_adapters_of_some_layers_only_are_added_where_they_belong() -> None:
    model = random_model("qwen3")
    lora = LORA.model_copy(update={"targets": ("v_proj", "up_proj")})
    tensors = random_adapter(model, 6, lora=lora)
    made = DecoderModel(model, context=CONTEXT, lora=lora, merge=False)
    adapted = with_peft(model, tensors, lora=lora)
    for sequence, logits in enumerate(computed(made, made.prepare(tensors))):
        torch.testing.assert_close(logits, expected(adapted, sequence), atol=2e-5, rtol=0)


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
def test_plain_pytorch_between_products_gives_what_the_kernels_give(kind: str) -> None:
    model = random_model(kind)
    results = []
    for operations in (CompiledGeneration, TorchGeneration):
        made = DecoderModel(model, context=CONTEXT, lora=None)
        made._operations = operations(made._architecture, made.cache)
        results.append(computed(made, made.prepare({})))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_bfloat16_is_close_to_transformers_in_bfloat16() -> None:
    model = random_model("qwen3").to(torch.bfloat16)
    made = DecoderModel(model, context=CONTEXT, lora=None)
    assert not made.is_exact
    for sequence, logits in enumerate(computed(made, made.prepare({}))):
        torch.testing.assert_close(logits, expected(model, sequence), atol=0.15, rtol=0)


def test_what_is_not_covered_is_refused_with_the_reason() -> None:
    turning = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    cases = {
        "the family 'gpt2' is not one of llama, mistral, qwen2, qwen3": random_gpt2(),
        "attention reaches back 64 tokens only": MistralForCausalLM(MistralConfig(**SIZES, sliding_window=64)),
        "the activation is 'gelu'": LlamaForCausalLM(LlamaConfig(**SIZES, hidden_act="gelu")),
        "positions rotate by 'dynamic'": LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=turning)),
    }
    for reason, model in cases.items():
        with pytest.raises(NotCovered, match=reason):
            read_architecture(model, context=CONTEXT)


def test_weights_that_do_not_fit_are_refused_with_the_tensor_named() -> None:
    model = random_model("qwen3")
    whole = {name: value.numpy() for name, value in model.named_parameters()}
    made = DecoderModel(model, context=CONTEXT, lora=None)
    with pytest.raises(ConfigError, match=r"there is no model\.norm\.weight"):
        made.prepare({name: tensor for name, tensor in whole.items() if name != "model.norm.weight"})
    with pytest.raises(ConfigError, match=r"model\.norm\.weight has shape \[65\], the model needs \[64\]"):
        made.prepare(whole | {"model.norm.weight": np.zeros(65, np.float32)})
    with pytest.raises(ConfigError, match="there is lm_head"):
        made.prepare(whole | {"lm_head.extra": np.zeros(65, np.float32)})
    adapted = DecoderModel(model, context=CONTEXT, lora=LORA)
    with pytest.raises(ConfigError, match="the adapter does not fit the model"):
        adapted.prepare(random_adapter(model, 0, lora=LORA.model_copy(update={"rank": 3})))
