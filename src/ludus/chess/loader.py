"""A directory of training chunks as a trainer's loader: `buffer: {loader: {kind: chess_chunks, options: {...}}}`.

The native loader makes batches in threads of its own; here it becomes a source of rounds (`cycle`), of rows for
dashboards, and of positions to validate on, which are never trained on: a chunk's name decides which it is.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from ludus_chess.loader import ChunkLoader, Tensors
from ludus_chess.loader_config import Focus
from ludus_chess.loader_config import LoaderConfig as NativeConfig

from ludus.chess.chunk_supply import ChunkSupply, Refused
from ludus.config import RunConfig
from ludus.errors import ConfigError, CorruptRecord
from ludus.train.messages import LoaderRefusal, LoaderStage

LOOK_S = 0.5
"""How often somebody is told that the loader waits."""
HELD_OUT_S = 30.0
"""How long positions to validate on may take; games are inflated for them."""


class ChessChunks:
    """Positions of chunks, with what a round has admitted."""

    def __init__(
        self,
        *,
        config: RunConfig,
        seed: int,
        waiting: Callable[[], None],
        directory: str,
        positions: int | None = None,
        validation: float = 0.05,
        validation_positions: int = 1024,
        validation_fixed: bool = False,
        threads: int = 2,
        pool_chunks: int = 100_000,
        min_chunks: int = 1,
        reservoir: int = 100_000,
        memory_mb: int = 256,
        rate: float = 1.0,
        count: int = 0,
        focus: Mapping[str, float] | None = None,
        input_format: int = 1,
        check_moves: bool = True,
        theta: float = 5 / 6,
        admit_wait_s: float = 30.0,
    ) -> None:
        """Begin to load.

        Args:
            config: The run's.
            seed: Of the shuffling.
            waiting: Called while there is nothing to load.
            directory: Watched with its subfolders; it need not exist yet.
            positions: Of an update, a multiple of `train.minibatch`. Default: four minibatches.
            validation: Share of the chunks that is held out.
            validation_positions: Of a measurement on them.
            validation_fixed: Measure on the positions of the first measurement (since this start) again and again, so
                that figures are comparable; they stay in memory.
            threads: That inflate and expand; batches do not depend on their number.
            pool_chunks: A sliding window over the newest.
            min_chunks: No first batch before so many are there.
            reservoir: Positions that are mixed.
            memory_mb: For decoded games, or the positions of the reservoir and the next ones of each chunk.
            rate: Share of a game's positions that one use takes.
            count: Or how many; 0: by rate.
            focus: Prefers positions that the search judged otherwise than the network (`ludus_chess.Focus`).
            input_format: Records of any other are refused.
            check_moves: Refuse positions that the played move does not lead to.
            theta: Decay of the short-term value targets.
            admit_wait_s: After a restart, how long a round waits for chunks that were counted and are not found.
        """
        minibatch = config.train.minibatch
        positions = positions or 4 * minibatch
        if positions % minibatch:
            raise ConfigError(
                f"buffer.loader.options.positions: {positions} is no multiple of train.minibatch ({minibatch})"
            )
        if not 0 <= validation < 1:
            raise ConfigError(f"buffer.loader.options.validation: expected a share from 0 to less than 1: {validation}")
        self._waiting, self._admit_wait_s = waiting, admit_wait_s
        self._is_in_rounds = config.cycle is not None
        self._supply = ChunkSupply(Path(directory))
        self._is_fixed = validation_fixed
        self._fixed: Tensors | None = None
        shared: dict[str, Any] = {
            "directory": directory,
            "seed": seed,
            "pool_chunks": pool_chunks,
            "input_format": input_format,
            "check_moves": check_moves,
            "theta": theta,
            "split": {"train": 1 - validation, "validation": validation} if validation else {},
        }
        try:
            self._loader = ChunkLoader(
                NativeConfig(
                    **shared,
                    part="train" if validation else "",
                    batch_size=positions,
                    threads=threads,
                    min_chunks=min_chunks,
                    reservoir=reservoir,
                    memory_mb=memory_mb,
                    rate=rate,
                    count=count,
                    focus=Focus(**(focus or {})),
                    admit_at_anchor=config.cycle is not None,
                )
            )
        except (TypeError, ValueError) as error:
            raise ConfigError(f"buffer.loader.options: {error}") from error
        # Few positions of each game, so that they differ; little memory, so that games are inflated again. Games are
        # admitted when they are measured on: batches made ahead of that would be of the first few alone.
        held_out: dict[str, Any] = {
            "batch_size": validation_positions,
            "count": 8,
            "memory_mb": 16,
            "threads": 1,
            "reservoir": 1,
            "admit_at_anchor": True,
        }
        self._held_out = ChunkLoader(NativeConfig(**shared, part="validation", **held_out)) if validation else None
        self._stats = self._loader.get_stats()
        self._refused = self._watch_refusals()
        self._busy_s: dict[str, float] = {}
        self._busy_at = monotonic()

    def next(self) -> Tensors:
        """The positions of the next update."""
        while (batch := self._loader.get_next_batch(LOOK_S)) is None:
            # All that the round admitted is refused, or gone: without more of them this would wait for ever.
            if self._is_in_rounds and self.new_sequences() and self._stats.is_starved:
                self._loader.reset_anchor()
            self._waiting()
        return batch

    def held_out(self) -> Tensors | None:
        """Positions of chunks that are never trained on; None if there are not enough yet."""
        if self._fixed is not None:
            return self._fixed
        if self._held_out is None:
            return None
        stats = self._held_out.get_stats()
        if stats.chunks_since_anchor:
            self._held_out.reset_anchor()
        elif not stats.chunks:
            return None
        found = self._held_out.get_next_batch(HELD_OUT_S)
        if found is not None and self._is_fixed:
            # The loader's own memory is used again for what comes next.
            planes, policy, values = found
            self._fixed = planes.copy(), policy.copy(), values.copy()
            self._held_out.stop()
        return found if self._fixed is None else self._fixed

    def new_sequences(self) -> int:
        """Chunks that no round has admitted."""
        self._stats = self._loader.get_stats()
        self._supply.see(self._stats)
        return self._stats.chunks_since_anchor

    def admit(self, sequences: int) -> None:
        """Let the oldest new chunks into the pool.

        After a restart, waits until the directory is scanned. Chunks that were counted before it and are not found
        within `admit_wait_s` are gone: the round trains on what is there. Where nothing is there, it waits on.
        """
        since = monotonic()
        while (found := self.new_sequences()) < sequences:
            self._supply.expect(sequences, found)
            if not self._stats.is_scanned or self._supply.trouble():
                since = monotonic()
            elif monotonic() - since >= self._admit_wait_s and (found or self._stats.chunks):
                break
            self._waiting()
            sleep(LOOK_S / 10)
        self._supply.begin(sequences, found)
        self._loader.reset_anchor(sequences)

    def problem(self) -> str:
        """Why no chunks come, or fewer than were counted; empty while all is well."""
        return self._supply.problem()

    def take_refusals(self) -> tuple[list[LoaderRefusal], dict[str, int]]:
        """What was refused since the last call; and by reason, how many more than the native list holds."""
        listed: list[LoaderRefusal] = []
        unlisted: dict[str, int] = {}
        for refused in self._refused:
            found, more = refused.take()
            listed += found
            for reason, count in more.items():
                unlisted[reason] = unlisted.get(reason, 0) + count
        return listed, unlisted

    def _watch_refusals(self) -> list[Refused]:
        return [Refused(loader) for loader in (self._loader, self._held_out) if loader is not None]

    def stages(self) -> list[LoaderStage]:
        """One row for each stage, as of the last look for new chunks: loads are averages between two calls."""
        now = monotonic()
        before, passed = self._busy_s, max(now - self._busy_at, 1e-9)
        self._busy_s, self._busy_at = {one.name: one.busy_s for one in self._stats.stages}, now
        return [
            LoaderStage(
                name=one.name,
                load=max(one.busy_s - before.get(one.name, 0.0), 0.0) / passed,
                length=one.queue,
                capacity=one.capacity,
                counts=dict(one.counts),
            )
            for one in self._stats.stages
        ]

    def state(self) -> dict[str, Any]:
        """The place behind the last batch."""
        return {"chess_chunks": b64encode(self._loader.state()).decode()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue with the batch that would have come next."""
        try:
            self._loader.load_state(b64decode(state["chess_chunks"], validate=True))
        except (KeyError, ValueError) as error:
            raise CorruptRecord(f"the loader's state cannot be used: {error}") from error
        self._refused = self._watch_refusals()

    def close(self) -> None:
        """End all threads."""
        self._loader.stop()
        if self._held_out is not None:
            self._held_out.stop()
