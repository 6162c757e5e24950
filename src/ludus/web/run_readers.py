"""What was read of the runs that somebody looks at: kept for the newest few, so that memory is bounded."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from functools import cached_property

from ludus.config import RunConfig, load_config
from ludus.errors import LudusError
from ludus.lm.model_text import Decoder
from ludus.reports.episode_index import EpisodeIndex, EpisodeQuery
from ludus.reports.episode_view import view_episode
from ludus.reports.run_text import find_decoder
from ludus.reports.sequence_finder import SequenceFinder
from ludus.storage.run_directory import RunDirectory

MOST_RUNS = 8
PREPARE_AFTER_S = 0.3
"""The answer is on its way by then."""


class RunReader:
    """What reads one run. What it remembers is of immutable files, or checked against their size."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.episodes = EpisodeIndex(run.path)
        self.sequences = SequenceFinder(run.path)
        self._is_prepared = False

    def prepare(self) -> None:
        """Read soon what opening an episode takes, for somebody looks at a list of them. Nobody waits for it."""
        if not self._is_prepared:
            self._is_prepared = True
            timer = threading.Timer(PREPARE_AFTER_S, self._prepare)
            timer.daemon = True
            timer.start()

    def _prepare(self) -> None:
        newest = next(iter(self.episodes.search(EpisodeQuery(), limit=1).rows), None)
        episode = None if newest is None else self.episodes.find(newest.id)
        with contextlib.suppress(LudusError, OSError):  # whoever opens one is told
            if episode is not None:
                view_episode(episode, self.sequences.find(episode.id))
                _ = self.decoding

    @property
    def config(self) -> RunConfig:
        """The run's config as it is now."""
        return load_config(self.run.config)

    @cached_property
    def decoding(self) -> tuple[Decoder | None, str]:
        """What makes its tokens text; else why they stay numbers."""
        try:
            return find_decoder(self.run, self.config), ""
        except LudusError as error:
            return None, str(error)


class RunReaders:
    """The readers of the runs that were looked at last. Any thread."""

    def __init__(self) -> None:
        self._readers: OrderedDict[str, RunReader] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, run: RunDirectory) -> RunReader:
        """The reader of a run."""
        key = f"{run.path}\0{_identity(run)}"
        with self._lock:
            reader = self._readers.pop(key, None) or RunReader(run)
            self._readers[key] = reader
            while len(self._readers) > MOST_RUNS:
                self._readers.popitem(last=False)
            return reader


def _identity(run: RunDirectory) -> str:
    """Another run that is made in its place is another run."""
    try:
        return run.identity()
    except LudusError:
        return ""
