"""Expert rows from another run: what its policies did there.

Rows of a run with the same tokenizer, or with the same boards, are taken as they are. Those of a model with another
tokenizer are made into tokens anew, from the texts of their episodes, which is possible where an episode is one answer
to one prompt. Invariant: the other run is only read; it may be alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.buffer import BadDemonstration, TokenRow, as_expert_rows, as_rows, encode_messages, read_messages
from ludus.config import LanguageModelConfig, load_config
from ludus.config.sections.buffer import RunEpisodesConfig
from ludus.errors import ConfigError, StorageError
from ludus.experience import KeptRows
from ludus.ingest.row_files import Asking
from ludus.lm.model_folder import find_model_folder
from ludus.lm.model_text import ModelText, tokenizer_fingerprint
from ludus.records import Experiences, PolicyRef
from ludus.storage.arrow import episodes_from_table
from ludus.storage.run_directory import find_run
from ludus.storage.segment_reader import SegmentReader

ROWS_PER_PART = 1024


class RunRows:
    """What a policy did in another run."""

    def __init__(self, config: RunEpisodesConfig, text: ModelText | None, model: str, asking: Asking) -> None:
        """`text` and `model` are this run's language model, and its path; None and empty for a network."""
        self._config = config
        self._asking = asking
        self._text = text
        self._model = model
        self._run = find_run(Path(config.run))
        if not self._run.is_run():
            raise ConfigError(f"run: {config.run} is not a run directory")
        self.unusable: Counter[str] = Counter()
        """Rows that were asked for but could not be used, by reason."""

    def rows(self, origin: str, first: int) -> Iterator[Experiences]:
        """The rows that were asked for, oldest first, in parts, numbered from `first` on.

        Raises:
            ConfigError: the run has none, or none that this run can learn from.
        """
        try:
            kept = KeptRows(self._run.path)
            numbers = self._wanted(kept)
            again = self._needs_new_tokens()
            for start in range(0, len(numbers), ROWS_PER_PART):
                part = kept.read(numbers[start : start + ROWS_PER_PART])
                part = self._encoded_again(part) if again else self._as_they_are(part)
                if len(part):
                    yield as_expert_rows(part, origin=origin, first=first)
                    first += len(part)
        except StorageError as error:
            raise ConfigError(f"run: {self._config.run} cannot be read: {error}") from error

    def _wanted(self, kept: KeptRows) -> list[int]:
        least = -np.inf if self._config.min_reward is None else self._config.min_reward
        who = PolicyRef.parse(self._config.policy) if self._config.policy else None
        version = None if who is None or "@" not in str(self._config.policy) else who.version
        numbers: list[int] = []
        for sequence_numbers, rows in kept.scan():
            wanted = rows.sequences["final_reward"] >= least
            if who is not None:
                wanted &= rows.sequences["policy"] == str(who.name)
            if version is not None:
                wanted &= _are_all_of(rows, int(version))
            numbers += sequence_numbers[wanted].tolist()
        if not numbers:
            raise ConfigError(f"run: {self._config.run} has no verified sequences that were asked for")
        return numbers[-self._config.limit :] if self._config.limit else numbers

    def _needs_new_tokens(self) -> bool:
        """Whether its tokens are another model's."""
        theirs: LanguageModelConfig | None = load_config(self._run.config).policy.model
        if (theirs is None) != (self._text is None):
            what = "plays boards" if theirs is None else "is a language model's"
            raise ConfigError(f"run: {self._config.run} {what}, so this run cannot learn from it")
        if theirs is None:
            return False
        base = self._run.path / "base"
        folder = base if base.is_dir() else find_model_folder(theirs.path)
        return tokenizer_fingerprint(folder) != tokenizer_fingerprint(find_model_folder(self._model))

    def _as_they_are(self, rows: Experiences) -> Experiences:
        if self._text is None:
            return rows
        fits = rows.lengths <= self._text.context
        self.unusable["longer than the context"] += int((~fits).sum())
        return rows.take(np.flatnonzero(fits))

    def _encoded_again(self, rows: Experiences) -> Experiences:
        found: list[TokenRow] = []
        texts = self._texts(set(rows.sequences["episode"].tolist()))
        for episode in rows.sequences["episode"].tolist():
            try:
                found.append(self._encode(texts.get(episode)))
            except BadDemonstration as error:
                self.unusable[str(error)] += 1
        return as_rows(found, origin=self._config.run) if found else Experiences.empty()

    def _encode(self, fields: Mapping[str, Any] | None) -> TokenRow:
        if fields is None or self._text is None:
            raise BadDemonstration("another tokenizer, and not one answer to one prompt")
        messages = read_messages(self._asking.prompt(fields), system=self._asking.system)
        return encode_messages(self._text.chat, messages, context=self._text.context)

    def _texts(self, wanted: set[str]) -> dict[str, dict[str, Any]]:
        """Prompt and answer of those of the episodes that are one answer to one prompt."""
        found: dict[str, dict[str, Any]] = {}
        for _, table in SegmentReader(self._run.episodes).scan():
            here = [row for row, id in enumerate(table.column("id").to_pylist()) if id in wanted]
            for episode in episodes_from_table(table.take(here)) if here else ():
                inputs = episode.task.inputs
                if len(episode.replies) == 1 and isinstance(inputs.get("prompt"), str):
                    found[episode.id] = {**inputs, "response": episode.replies[0]}
        return found


def _are_all_of(rows: Experiences, version: int) -> NDArray[np.bool_]:
    """Rows whose chosen elements are all of one version."""
    others = np.asarray(rows.steps["mask"], np.bool_) & (rows.steps["version"] != version)
    before = np.concatenate([[0], np.cumsum(others)])
    result: NDArray[np.bool_] = before[rows.offsets[1:]] == before[rows.offsets[:-1]]
    return result
