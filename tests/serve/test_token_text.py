"""What single tokens spell, for tokenizers of both kinds."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ludus.http.token_text import TokenText


def spelled(text: TokenText, tokens: list[int]) -> bytes:
    return b"".join(bytes(text.describe(token, 0.0)["bytes"]) for token in tokens)


@pytest.mark.parametrize("text", ["plain", "Zwölf Boxkämpfer", "日本語 😀", "a\n\tb  c", "\x00\x7f"])
def test_tokens_of_bytes_spell_the_text(talking_run: Any, text: str) -> None:
    tokenizer = talking_run.model.tokenizer
    tokens = tokenizer.encode(text, add_special_tokens=False)
    assert spelled(TokenText(tokenizer), tokens) == text.encode()


def test_a_mark_of_the_model_has_a_name_and_no_bytes(talking_run: Any) -> None:
    tokenizer = talking_run.model.tokenizer
    described = TokenText(tokenizer).describe(tokenizer.convert_tokens_to_ids("<|im_end|>"), -1.5)
    assert described == {"token": "<|im_end|>", "logprob": -1.5, "bytes": [], "top_logprobs": []}


def test_half_a_character_has_its_byte(talking_run: Any) -> None:
    described = TokenText(talking_run.model.tokenizer).describe(0xC3, 0.0)
    assert list(described.values())[:3] == ["\ufffd", 0.0, [0xC3]]


def test_merged_tokens_of_a_byte_level_tokenizer_spell_all_their_bytes() -> None:
    # "Ġ" is how such a tokenizer writes a space, "Ã¤" the two bytes of "ä".
    vocabulary = {"Ġ": 0, "Ã": 1, "¤": 2, "Ã¤": 3, "ĠÃ¤": 4}
    fast = Tokenizer(models.BPE(vocab=vocabulary, merges=[("Ã", "¤"), ("Ġ", "Ã¤")]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    text = TokenText(PreTrainedTokenizerFast(tokenizer_object=fast))
    assert list(text.describe(4, 0.0).values())[:3] == [" ä", 0.0, list(" ä".encode())]


def test_byte_fallback_tokens_are_one_byte() -> None:
    fast = Tokenizer(models.BPE(vocab={"<0xE2>": 0, "hi": 1}, merges=[], byte_fallback=True))
    fast.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    text = TokenText(PreTrainedTokenizerFast(tokenizer_object=fast))
    assert text.describe(0, 0.0)["bytes"] == [0xE2]
    assert bytes(text.describe(1, 0.0)["bytes"]) == b"hi"
