"""Which model a policy is to become like, and whether it speaks in the same tokens. Loads no weights and no PyTorch.

Invariant: a teacher that passed `check_same_tokens` gives every token number the meaning that the policy gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.config import LanguageModelConfig
from ludus.errors import ConfigError
from ludus.lm.model_folder import find_model_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherModel:
    """A whole model, or a version of a policy: adapters on a model."""

    model: LanguageModelConfig
    """With the adapters' `lora`; null for a whole model."""
    adapter: str = ""
    """Folder of the version whose adapters count; empty for a whole model."""

    def to_json(self) -> dict[str, Any]:
        """JSON from which `from_json` restores it."""
        return {"model": self.model.model_dump(mode="json"), "adapter": self.adapter}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TeacherModel:
        """The inverse of `to_json`."""
        return cls(model=LanguageModelConfig.model_validate(values["model"]), adapter=str(values["adapter"]))


def check_same_tokens(policy: str, teacher: str) -> None:
    """Raise ConfigError for a teacher whose tokens are not the policy's. Both are paths or ids of models."""
    mine = _vocabulary(find_model_folder(policy))
    try:
        theirs = _vocabulary(find_model_folder(teacher))
    except ConfigError as error:
        raise ConfigError(*(f"policy.teacher: {problem}" for problem in error.problems)) from error
    if mine == theirs:
        return
    strange = sorted(mine.items() ^ theirs.items(), key=lambda item: (item[1], item[0]))[0]
    raise ConfigError(
        f"policy.teacher: {teacher} has other tokens than {policy} ({len(theirs)} and {len(mine)}; the first that "
        f"differs is {strange[1]}), so its opinion of them means nothing; choose a teacher with the same tokenizer"
    )


def _vocabulary(folder: Path) -> dict[str, int]:
    """Every token's number by what is written for it."""
    file = folder / "tokenizer.json"
    try:
        if file.is_file():
            from tokenizers import Tokenizer

            return dict(Tokenizer.from_file(str(file)).get_vocab(with_added_tokens=True))
        from transformers import AutoTokenizer

        return dict(AutoTokenizer.from_pretrained(folder, trust_remote_code=False).get_vocab())
    except Exception as error:  # the libraries raise plain exceptions
        raise ConfigError(f"{folder} has no tokenizer that can be read: {error}") from error
