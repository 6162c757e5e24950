"""Text without weights: the same tokens and the same refusals as the loaded model, and decoding without PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ludus
from ludus.config import LanguageModelConfig
from ludus.errors import ConfigError
from ludus.lm.chat import ChatFormat
from ludus.lm.language_models import LanguageModel
from ludus.lm.model_text import _slow_decoder, load_decoder, load_model_text, tokenizer_fingerprint
from ludus.lm.tiny_model import make_tiny_model

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße <|im_end|>!"}]


def test_tokens_and_context_are_those_of_the_loaded_model(tiny: Path, model: LanguageModel) -> None:
    text = load_model_text(LanguageModelConfig(path=str(tiny)))
    assert text.chat.opening(MESSAGES) == ChatFormat(model.tokenizer).opening(MESSAGES)
    assert (text.context, text.vocabulary) == (model.context, len(model.tokenizer))
    with pytest.raises(ConfigError, match="was made for 128 tokens at most"):
        load_model_text(LanguageModelConfig(path=str(tiny), context=4096))


def test_decoder_gives_the_text_back_with_marks_or_without(tiny: Path, model: LanguageModel) -> None:
    decode = load_decoder(tiny)
    tokens = ChatFormat(model.tokenizer).encode_reply("Grüße, 你好!")
    assert decode(tokens, False) == "Grüße, 你好!"
    assert decode(tokens, True) == "Grüße, 你好!<|im_end|>"


def test_decoder_for_other_tokenizers_goes_through_transformers(copy: Path) -> None:
    tokens = list("über".encode())
    fast = load_decoder(copy)(tokens, False)
    assert _slow_decoder(copy)(tokens, False) == fast == "über"


def test_spoilt_tokenizer_is_one_clear_sentence(copy: Path) -> None:
    (copy / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer.json cannot be read"):
        load_decoder(copy)


def test_fingerprint_tells_tokenizers_apart(tiny: Path, copy: Path, tmp_path: Path) -> None:
    assert tokenizer_fingerprint(tiny) == tokenizer_fingerprint(copy)
    wider = make_tiny_model(tmp_path / "wider", layers=1, width=64, context=128)
    assert tokenizer_fingerprint(wider) == tokenizer_fingerprint(tiny)
    (copy / "chat_template.jinja").write_text("{{ messages }}")
    assert tokenizer_fingerprint(copy) != tokenizer_fingerprint(tiny)


def test_decoding_loads_no_pytorch(tiny: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ludus.lm.model_text import load_decoder\n"
        f"print(load_decoder(Path({str(tiny)!r}))([104, 105], True), 'torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(ludus.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["hi", "False"]
