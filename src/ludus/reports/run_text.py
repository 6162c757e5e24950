"""What makes the tokens of a run text again, for whoever looks at its rows."""

from __future__ import annotations

from pathlib import Path

from ludus.config import RunConfig
from ludus.errors import ConfigError
from ludus.lm.model_text import Decoder
from ludus.storage.run_directory import RunDirectory


def text_folder(directory: RunDirectory, config: RunConfig) -> Path:
    """Where the files of a run's language model are: what a warm start made, or what the config names.

    Raises:
        ConfigError: it has none, or the model is not on this machine.
    """
    from ludus.lm.model_folder import find_model_folder

    if config.policy.model is None:
        raise ConfigError(f"{directory.path} has no language model")
    return directory.base if directory.base.is_dir() else find_model_folder(config.policy.model.path)


def find_decoder(directory: RunDirectory, config: RunConfig) -> Decoder | None:
    """The decoder of a run; None when its policy is a network."""
    if config.policy.model is None:
        return None
    from ludus.lm.model_text import load_decoder

    return load_decoder(text_folder(directory, config))
