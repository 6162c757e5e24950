"""Tokens are drawn with the right frequencies, from numbers that belong to (seed, position) alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))

from engine_models import CONTEXT, random_model

from ludus.lm.decoder_model import DecoderModel
from ludus.lm.sampling import Draws, sample_tokens, token_uniforms

Draw = Callable[[Tensor, Draws], tuple[NDArray[np.int32], NDArray[np.float32]]]


@pytest.fixture(params=["compiled", "torch"])
def draw(request: pytest.FixtureRequest) -> Draw:
    return (
        DecoderModel(random_model("llama"), context=CONTEXT, lora=None).draw
        if request.param == "compiled"
        else sample_tokens
    )


def draws(uniforms: Any, *, temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0) -> Draws:
    count = len(uniforms)
    return Draws(
        uniforms=np.asarray(uniforms, np.float64),
        temperatures=np.full(count, temperature, np.float32),
        top_p=np.full(count, top_p, np.float32),
        top_k=np.full(count, top_k, np.int32),
    )


def spread(count: int) -> NDArray[np.float64]:
    """Evenly spread uniforms: frequencies are then right to one in `count`."""
    return (np.arange(count) + 0.5) / count


def frequencies(draw: Draw, logits: Tensor, **sampling: Any) -> NDArray[np.float64]:
    tokens, _ = draw(logits.repeat(20_000, 1), draws(spread(20_000), **sampling))
    return np.bincount(tokens, minlength=len(logits)) / 20_000


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("size", [1, 7, 16, 17, 259])
def test_tokens_come_as_often_as_their_probability_says(draw: Draw, size: int, temperature: float) -> None:
    logits = 2 * torch.randn(size, generator=torch.Generator().manual_seed(size))
    expected = (logits.double() / temperature).softmax(-1).numpy()
    assert np.abs(frequencies(draw, logits, temperature=temperature) - expected).max() < 2e-4


def test_logps_are_those_at_the_temperature_before_anything_is_cut(draw: Draw) -> None:
    logits = 3 * torch.randn(64, 259, generator=torch.Generator().manual_seed(0))
    for sampling in ({}, {"temperature": 0.6}, {"top_k": 5}, {"top_p": 0.4, "temperature": 2.0}):
        tokens, logps = draw(logits, draws(spread(64), **sampling))
        whole = (logits.double() / sampling.get("temperature", 1.0)).log_softmax(-1).numpy()
        np.testing.assert_allclose(logps, whole[np.arange(64), tokens], atol=2e-6)


def test_temperature_0_takes_the_likeliest_with_its_logp_at_temperature_1(draw: Draw) -> None:
    logits = torch.randn(64, 259, generator=torch.Generator().manual_seed(0))
    tokens, logps = draw(logits, draws(spread(64), temperature=0.0))
    np.testing.assert_array_equal(tokens, logits.argmax(-1).numpy())
    np.testing.assert_allclose(logps, logits.log_softmax(-1).max(-1).values.numpy(), atol=2e-6)


def test_top_k_and_top_p_draw_from_what_is_left(draw: Draw) -> None:
    chances = torch.tensor([0.1, 0.4, 0.05, 0.3, 0.15])
    np.testing.assert_allclose(frequencies(draw, chances.log(), top_k=2), [0, 4 / 7, 0, 3 / 7, 0], atol=2e-4)
    np.testing.assert_allclose(frequencies(draw, chances.log(), top_p=0.71), [0, 8 / 17, 0, 6 / 17, 3 / 17], atol=2e-4)
    np.testing.assert_allclose(frequencies(draw, chances.log(), top_p=0.69), [0, 4 / 7, 0, 3 / 7, 0], atol=2e-4)


def test_impossible_tokens_are_never_drawn_at_the_edges(draw: Draw) -> None:
    logits = torch.full((2, 40), -torch.inf)
    logits[:, 17] = 0.0
    logits[:, 33] = -1.0
    tokens, logps = draw(logits, draws([0.0, 1 - 2.0**-53]))
    assert tokens.tolist() == [17, 33]
    assert np.isfinite(logps).all()


def test_rows_that_are_not_numbers_are_shown_by_their_logp(draw: Draw) -> None:
    logits = torch.zeros(3, 20)
    logits[1] = torch.nan
    tokens, logps = draw(logits, draws([0.3, 0.3, 0.3]))
    assert not np.isfinite(logps[1])
    assert np.isfinite(logps[[0, 2]]).all()
    assert tokens[0] == tokens[2]


def test_uniforms_are_uniform_and_belong_to_seed_and_position() -> None:
    seeds, positions = np.meshgrid(np.arange(200, dtype=np.uint64), np.arange(200, dtype=np.int32))
    uniforms = token_uniforms(seeds.ravel(), positions.ravel())
    assert len(np.unique(uniforms)) == 40_000
    assert np.abs(np.histogram(uniforms, 20, (0, 1))[0] / 2000 - 1).max() < 0.1
    assert abs(np.corrcoef(uniforms[:-1], uniforms[1:])[0, 1]) < 0.02
    one = token_uniforms(np.array([7], np.uint64), np.array([9], np.int32))
    assert one[0] == uniforms.reshape(200, 200)[9, 7]
