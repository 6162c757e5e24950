"""Causal language models in Hugging Face format, loaded frozen.

Invariant: what `load_language_model` returns can play and be trained: whole weights from safetensors, no code from
the model, a chat template, and a context that the model was made for. Anything else is a `ConfigError` of one sentence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from ludus.config import LanguageModelConfig
from ludus.errors import ConfigError
from ludus.lm.model_folder import find_model_folder

MOST_CONTEXT = 4096
"""Tokens of a conversation unless the config asks for more."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A frozen base model with its tokenizer."""

    model: PreTrainedModel
    """In evaluation mode, without gradients; adapters are put beside it, not into it."""
    tokenizer: Any
    """A `PreTrainedTokenizerBase`, with a chat template if the model is to speak."""
    context: int
    """Tokens that a conversation may have."""
    path: str
    """As the config names it: a folder or a hub id."""
    folder: Path
    """Where its files are on this machine."""

    @property
    def width(self) -> int:
        """Size of the last hidden state, which a critic head sees."""
        return int(self.model.config.get_text_config().hidden_size)

    @property
    def vocabulary(self) -> int:
        """Tokens that have embeddings; the tokenizer may know fewer."""
        embeddings: Any = self.model.get_input_embeddings()
        return int(embeddings.weight.shape[0])


def load_language_model(
    config: LanguageModelConfig,
    *,
    threads: int | None = None,
    speaks: bool = True,
    device: torch.device | str = "cpu",
) -> LanguageModel:
    """Load a model and its tokenizer.

    Args:
        config: which model, in which type, with how much context.
        threads: how many threads PyTorch may use in this process from now on; None leaves that as it is.
        speaks: whether it is to hold conversations, and not only to judge tokens.
        device: where its weights are to be.

    Raises:
        ConfigError: there is no such model here, or it cannot be used; one sentence says why.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    folder = find_model_folder(config.path)
    settings = _load_settings(config.path, folder)
    context = _context(config, settings)
    tokenizer = _load_tokenizer(config.path, folder, speaks=speaks)
    model = _load_weights(config, folder)
    if str(device) != "cpu":
        model.to(device)  # type: ignore[arg-type]
    loaded = LanguageModel(model=model, tokenizer=tokenizer, context=context, path=config.path, folder=folder)
    if len(tokenizer) > (rows := loaded.vocabulary):
        raise ConfigError(f"{config.path} has a tokenizer of {len(tokenizer)} tokens but embeddings for {rows}")
    return loaded


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from writing progress bars and advice to the terminal for a while."""
    chatter: Any = transformers.utils.logging
    verbosity, bars = chatter.get_verbosity(), chatter.is_progress_bar_enabled()
    chatter.set_verbosity_error()
    chatter.disable_progress_bar()
    try:
        yield
    finally:
        chatter.set_verbosity(verbosity)
        if bars:
            chatter.enable_progress_bar()


def context_of(config: LanguageModelConfig, folder: Path) -> int:
    """Tokens that a conversation may have; no weights are read. Raises ConfigError as loading does."""
    return _context(config, _load_settings(config.path, folder))


def _load_settings(path: str, folder: Path) -> transformers.PreTrainedConfig:
    with _refusing(f"{path} has a config.json that transformers cannot use"), quiet_transformers():
        settings: transformers.PreTrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    known: str | None = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(settings.model_type)
    said = settings.architectures or [known or settings.model_type]
    if known not in said or settings.is_encoder_decoder:
        raise ConfigError(f"{path} is a {said[0]}, not a causal language model")
    return settings


def _context(config: LanguageModelConfig, settings: transformers.PreTrainedConfig) -> int:
    most = getattr(settings.get_text_config(), "max_position_embeddings", None)
    if config.context is None:
        return min(most or MOST_CONTEXT, MOST_CONTEXT)
    if most is not None and config.context > most:
        raise ConfigError(f"context: {config.path} was made for {most} tokens at most, got {config.context}")
    return config.context


def _load_tokenizer(path: str, folder: Path, *, speaks: bool = True) -> Any:
    with _refusing(f"{path} has no tokenizer that transformers can use"), quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if speaks and not tokenizer.chat_template:
        raise ConfigError(
            f"{path} has a tokenizer without a chat template, so it cannot hold a conversation; "
            "use the model's instruct version, or put a chat_template.jinja into its folder"
        )
    return tokenizer


def _load_weights(config: LanguageModelConfig, folder: Path) -> PreTrainedModel:
    with _refusing(f"{config.path} has weights that transformers cannot load"), quiet_transformers():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=DTYPES[config.dtype],
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    model, report = loaded
    lacking = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
    if lacking:
        raise ConfigError(f"{config.path} lacks {len(lacking)} of the weights its config.json asks for: {lacking[0]}")
    frozen: PreTrainedModel = model.eval().requires_grad_(False)
    return frozen


@contextlib.contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Say in one line what a library could not do with a model's files."""
    try:
        yield
    except Exception as error:  # transformers, tokenizers, safetensors and jinja2 raise whatever they like
        lines = str(error).strip().splitlines() or [""]
        raise ConfigError(f"{what} ({type(error).__name__}: {lines[0]})") from error
