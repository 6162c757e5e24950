"""Sampled tokens say what transformers reads in them, special tokens left out."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ludus.config import LanguageModelConfig
from ludus.lm.chat import ChatFormat
from ludus.lm.language_models import load_language_model
from ludus.lm.tiny_model import make_tiny_model


def test_decoding_equals_that_of_transformers(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "tiny", layers=1, width=16, heads=2, kv_heads=1)
    tokenizer = load_language_model(LanguageModelConfig(path=str(folder))).tokenizer
    chat = ChatFormat(tokenizer)

    @given(st.lists(st.integers(0, len(tokenizer) - 1), max_size=40))
    def check(tokens: list[int]) -> None:
        expected = tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert chat.decode(tokens) == expected

    check()
