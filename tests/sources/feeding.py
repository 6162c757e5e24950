"""A run that feeds others, without its processes: the same files, with rows of our choice and one segment for each call."""

from pathlib import Path
from typing import Any

import numpy as np

from ludus.buffer import Buffer
from ludus.config import dump_config, parse_config, resolve
from ludus.experience import Refusals
from ludus.orchestrator import RunStore, check_parts, open_context
from ludus.records import Experiences
from ludus.sources.feeds import Feeds
from ludus.storage.arrow import experiences_to_table
from ludus.storage.catalog import Catalog
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segment_reader import SegmentReader
from ludus.storage.segments import SegmentLog

EXPLORER = """
name: explorer
games: [open_spiel:tic_tac_toe]
topology: split
mode: explore
policy: {network: {kind: mlp, hidden: [8]}}
"""
SETTINGS = """
games: [open_spiel:tic_tac_toe]
topology: split
mode: train
policy: {network: {kind: mlp, hidden: [8]}}
league: {opponents: [{kind: fixed, players: [random]}]}
evaluate: {against: [], games: 0, final_games: 0, at_start: false}
telemetry: {tensorboard: false, every_s: 0}
"""
"""Of a trainer whose batches have as many sequences as `train.batch_episodes` says."""

Key = tuple[int, str, int]
"""Task, episode and seat of a row."""


class FakeExplorer:
    """Make it, and let it play."""

    def __init__(self, path: Path, text: str = EXPLORER) -> None:
        self.run = RunDirectory(path)
        self.run.create(dump_config(resolve(parse_config(text, "explorer.yaml"))))
        self._catalog = Catalog(self.run.catalog)
        self._log = SegmentLog(path, "experiences", self._catalog)
        self._next_task = 0

    def play(self, count: int, **columns: object) -> Experiences:
        """One segment with so many sequences, of the next tasks."""
        rows = board_rows(range(self._next_task, self._next_task + count))
        rows = rows.replace(sequences={name: value for name, value in columns.items() if name in rows.sequences})
        rows = rows.replace(steps={name: value for name, value in columns.items() if name in rows.steps})
        self._next_task += count
        self._log.append(experiences_to_table(rows))
        self._log.commit()
        return rows

    def trim(self, before: int) -> None:
        self._log.trim(before)

    def segments(self) -> list[Path]:
        return sorted(self.run.experiences.glob("*.arrow"))

    def close(self) -> None:
        self._catalog.close()


class Trainer:
    """The part of a run that takes rows in, with real files and without processes."""

    def __init__(self, folder: Path, text: str = "", *, feeds: tuple[str, ...] = ("a", "b"), saved: Any = None) -> None:
        named = ", ".join(str(folder / name) for name in feeds)
        sizes = "" if "buffer" in text else f"buffer: {{feeds: [{named}], capacity: 100000}}\n"
        text = (
            "name: trainer\ntrain: {batch_episodes: 4, minibatch: 8}\n"
            + SETTINGS
            + sizes
            + text.replace("FEEDS", named)
        )
        self.config = resolve(parse_config(text, "trainer.yaml"))
        self.run = RunDirectory(folder / "trainer")
        self.run.create(text)
        games = check_parts(self.config)
        self.store = RunStore(self.config, self.run)
        self.context = open_context(self.config, games, self.run, self.run.new_attempt(), ())
        log = SegmentLog(self.run.path, "experiences", self.store.catalog)
        staleness = self.config.train.max_staleness if self.config.schedule == "async" else None
        self.buffer = Buffer(log, self.config.buffer, batch_rows=4, max_staleness=staleness)
        self.refusals = Refusals()
        self.feeds = Feeds(self.context, self.store.catalog, self.buffer, self.refusals, settle_s=0.0)
        if saved is not None:
            self.buffer.load_state(saved["buffer"])
            self.feeds.load_state(saved["feeds"], rows=saved["rows"])

    def state(self) -> dict[str, Any]:
        rows = len(self.buffer)
        return {"buffer": self.buffer.state(), "feeds": self.feeds.state(), "rows": rows}

    def take_all(self) -> None:
        while not self.feeds.take_in():
            pass

    def train(self, batches: int) -> None:
        for _ in range(batches):
            claim = self.buffer.claim(0, seed=0)
            assert claim is not None
            self.buffer.commit(claim)

    def close(self) -> None:
        self.context.telemetry.close()
        self.store.close()


def board_rows(tasks: range) -> Experiences:
    """Sequences that a game of tic-tac-toe could have brought, different for each task."""
    count = len(tasks)
    rng = np.random.default_rng(tasks.start)
    lengths = rng.integers(1, 5, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    elements = int(offsets[-1])
    final = rng.choice([-1.0, 0.0, 1.0], count).astype(np.float32)
    reward = np.zeros(elements, np.float32)
    reward[offsets[1:] - 1] = final
    return Experiences(
        sequences={
            "episode": np.array([f"episode-{task}" for task in tasks], object),
            "task": np.array(tasks, np.int64),
            "attempt": np.zeros(count, np.int64),
            "game": np.full(count, "open_spiel:tic_tac_toe", object),
            "seat": np.zeros(count, np.int64),
            "policy": np.full(count, "main", object),
            "group": np.full(count, "", object),
            "final_reward": final,
            "shaped_reward": final.copy(),
            "truncated": np.zeros(count, np.bool_),
        },
        offsets=offsets,
        steps={
            "action": rng.integers(0, 9, elements).astype(np.int32),
            "mask": np.ones(elements, np.bool_),
            "logp": np.full(elements, -np.log(9.0), np.float32),
            "value": np.zeros(elements, np.float32),
            "reward": reward,
            "version": np.zeros(elements, np.int32),
            "observation": rng.integers(0, 2, (elements, 3, 3, 3)).astype(np.float32),
            "legal": np.ones((elements, 9), np.bool_),
        },
    )


def rows_in_log(run_dir: Path) -> list[Key]:
    """Every row in a run's log of experiences, in order."""
    return [
        (row["task"], row["episode"], row["seat"])
        for _, table in SegmentReader(run_dir / "experiences").scan()
        for row in table.select(["task", "episode", "seat"]).to_pylist()
    ]
