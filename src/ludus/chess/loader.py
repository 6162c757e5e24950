"""The native chunk loader as a trainer pulls from it: tensors, a state in JSON, rounds of new chunks, stages as rows.

A chunk is a sequence of a round: `admit` lets the oldest new ones join at a batch that timing does not change, so a run
that was killed gives the same batches as one that was not. Files are admitted whole: a tar may bring more than asked.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ludus.errors import ConfigError
from ludus.extras import need_packages
from ludus.train.messages import LoaderStage

if TYPE_CHECKING:
    from ludus_chess import ChunkLoader, Tensors

WAIT_S = 2.0
"""How often whoever waits for data is told so."""
_log = logging.getLogger(__name__)


class ChessLoader:
    """Batches of chess positions from a directory where chunks arrive. Options: `ludus_chess.LoaderConfig`."""

    def __init__(
        self, *, seed: int, waiting: Callable[[], None] | None = None, rounds: bool = False, **options: Any
    ) -> None:
        need_packages("a loader of chess chunks", "ludus_chess")
        self._waiting = waiting
        self._loader = _make(seed=seed, admit_at_anchor=rounds, **options)

    def next(self) -> Tensors:
        """Planes `[B, 112, 8, 8]`, policy `[B, 1858]`, values `[B, 6, 3]`. Blocks until there are chunks."""
        while (batch := self._loader.get_next_batch(WAIT_S)) is None:
            if self._waiting is not None:
                self._waiting()
        self._report_refusals()
        return batch

    def new_sequences(self) -> int:
        """Chunks behind the anchor: there, and not admitted yet."""
        return self._loader.get_stats().chunks_since_anchor

    def admit(self, sequences: int) -> None:
        """Let the oldest new chunks join, by moving the anchor over them."""
        self._loader.reset_anchor(sequences)

    def stages(self) -> list[LoaderStage]:
        """One row for each stage of the native loader."""
        return [
            LoaderStage(
                name=stage.name,
                load=stage.load,
                length=stage.queue,
                capacity=stage.capacity,
                counts=dict(stage.counts),
            )
            for stage in self._loader.get_stats().stages
        ]

    def state(self) -> dict[str, Any]:
        """JSON: shuffling, anchor, and which files joined at which batch."""
        return {"loader": base64.b64encode(self._loader.state()).decode()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue with the batch that would have come next."""
        try:
            self._loader.load_state(base64.b64decode(state["loader"], validate=True))
        except (KeyError, ValueError) as error:
            raise ConfigError(f"the chunk loader cannot continue: {error}") from error

    def close(self) -> None:
        """End its threads."""
        self._loader.stop()

    def _report_refusals(self) -> None:
        for refusal in self._loader.take_refusals():
            where = f"{refusal.file}{refusal.member and '#' + refusal.member} at byte {refusal.offset}"
            _log.warning("refused %s: %s (%s)", where, refusal.detail, refusal.reason)


def _make(**options: Any) -> ChunkLoader:
    from ludus_chess import ChunkLoader, Focus, LoaderConfig

    if isinstance(options.get("focus"), Mapping):
        options["focus"] = Focus(**options["focus"])
    try:
        return ChunkLoader(LoaderConfig(**options))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"buffer.loader.options: {error}") from error
