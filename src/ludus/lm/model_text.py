"""A language model's way with text, without its weights: how conversations become tokens, and tokens text again.

Invariant: `load_model_text` refuses what `load_language_model` refuses, as far as tokenizer and context go. Nothing
here loads weights; `load_decoder` does not even load PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ludus.config import LanguageModelConfig, SamplingConfig
from ludus.errors import ConfigError
from ludus.lm.chat import ChatFormat
from ludus.lm.model_folder import find_model_folder
from ludus.storage.atomic import sha256_file

Decoder = Callable[[Sequence[int], bool], str]
"""Tokens as text; the flag says whether the model's marks are shown."""
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelText:
    """What is needed to write rows that a model could have written."""

    chat: ChatFormat
    context: int
    """Tokens that a conversation may have."""
    vocabulary: int
    """Tokens are below this number."""


def load_model_text(config: LanguageModelConfig, sampling: SamplingConfig | None = None) -> ModelText:
    """Read a model's tokenizer and settings. Raises ConfigError if it is not here or cannot be used.

    `sampling` has what the chat template is told.
    """
    from ludus.lm import language_models

    folder = find_model_folder(config.path)
    settings = language_models._load_settings(config.path, folder)
    tokenizer = language_models._load_tokenizer(config.path, folder)
    return ModelText(
        chat=ChatFormat(tokenizer, sampling),
        context=language_models._context(config, settings),
        vocabulary=len(tokenizer),
    )


def load_decoder(folder: Path) -> Decoder:
    """What makes a model's tokens text again. Raises ConfigError if the folder holds no tokenizer that can be read."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return _slow_decoder(folder)
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain exceptions
        raise ConfigError(f"{file} cannot be read: {error}") from error
    return lambda tokens, marks: str(tokenizer.decode([int(t) for t in tokens], skip_special_tokens=not marks))


def tokenizer_fingerprint(folder: Path) -> str:
    """The same for two models that make the same tokens of the same conversations."""
    return "/".join(sha256_file(folder / name) for name in _TOKENIZER_FILES if (folder / name).is_file())


def _slow_decoder(folder: Path) -> Decoder:
    """For models whose tokenizer is in another form: through transformers."""
    from ludus.lm import language_models

    tokenizer = language_models._load_tokenizer(str(folder), folder)
    decode = partial(tokenizer.decode, clean_up_tokenization_spaces=False)
    return lambda tokens, marks: str(decode([int(t) for t in tokens], skip_special_tokens=not marks))
