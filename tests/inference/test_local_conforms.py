"""The contract suite of all engines, on every way in which the local engine can compute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from engine_models import (
    CONTEXT,
    LORA,
    as_language_model,
    main,
    random_adapter,
    random_gpt2,
    random_model,
    with_peft,
)

from ludus.inference.local.engine import LocalEngine
from ludus.lm.kernels import load_kernels
from ludus.lm.language_models import LanguageModel
from ludus.records import PolicyRef
from ludus.runtime.native import load_library
from ludus.testing import check_engine

MakeEngine = Callable[..., LocalEngine]


def check(engine: LocalEngine, model: LanguageModel, references: dict[PolicyRef, Any]) -> None:
    asyncio.run(
        check_engine(engine, model.tokenizer, policies=list(references), context=CONTEXT, references=references)
    )


@pytest.mark.parametrize("options", [{"max_batch": 5, "prefill_tokens": 7}, {}], ids=["narrow", "wide"])
@pytest.mark.parametrize("merge", [True, False], ids=["merged", "beside the base"])
def test_three_adapters_in_one_batch_keep_the_contract(
    merge: bool, options: dict[str, Any], make_engine: MakeEngine, tiny: LanguageModel, references: dict[PolicyRef, Any]
) -> None:
    engine = make_engine(merge_adapters=merge, **options)
    assert engine.is_repeatable
    check(engine, tiny, references)


def forget_library() -> None:
    """Both remember what they loaded; another test of this process may have asked for it before."""
    load_library.cache_clear()
    load_kernels.cache_clear()


def test_without_a_compiler_the_contract_holds_but_for_repeating_bits(
    make_engine: MakeEngine,
    tiny: LanguageModel,
    references: dict[PolicyRef, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    forget_library()
    monkeypatch.setenv("CC", "no-such-compiler")
    try:
        with caplog.at_level(logging.WARNING):
            engine = make_engine()
    finally:
        forget_library()
    assert not engine.is_repeatable
    assert "there is no C compiler (no-such-compiler)" in caplog.text
    check(engine, tiny, references)


def test_versions_that_are_whole_models_keep_the_contract(tiny: LanguageModel) -> None:
    base, other = random_model("qwen3"), random_model("qwen3")
    generator = torch.Generator().manual_seed(3)
    for parameter in other.parameters():
        parameter.data += 0.02 * torch.randn(parameter.shape, generator=generator)
    engine = LocalEngine(as_language_model(base, tiny.tokenizer))
    for version, model in enumerate((base, other)):
        engine.add_version(main(version), {name: value.numpy() for name, value in model.named_parameters()})
    check(engine, tiny, {main(0): base, main(1): other})


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_every_family_keeps_the_contract(kind: str, tiny: LanguageModel, caplog: pytest.LogCaptureFixture) -> None:
    model = random_model(kind)
    tensors = random_adapter(model, 0)
    engine = LocalEngine(as_language_model(model, tiny.tokenizer), lora=LORA)
    engine.add_version(main(0), {})
    engine.add_version(main(1), tensors)
    assert engine.is_repeatable
    assert not caplog.records
    check(engine, tiny, {main(0): model, main(1): with_peft(model, tensors)})


def test_a_family_that_is_not_covered_keeps_the_contract_by_its_own_forward(
    tiny: LanguageModel, caplog: pytest.LogCaptureFixture
) -> None:
    model = random_gpt2()
    tensors = random_adapter(model, 0)
    with caplog.at_level(logging.WARNING):
        engine = LocalEngine(as_language_model(model, tiny.tokenizer), lora=LORA)
    assert "the family 'gpt2' is not one of" in caplog.text
    engine.add_version(main(0), {})
    engine.add_version(main(1), tensors)
    check(engine, tiny, {main(0): model, main(1): with_peft(model, tensors)})
