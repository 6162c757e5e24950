"""What happens to episodes that come back: checked, sifted, transformed, put into the buffer, counted and logged.

Invariant: an episode's experience is on disk before the episode is, and the episode is what counts as played. A kill in
between makes the task be played again, which changes nothing: rows that are there already are not inserted twice. Where
tasks come in groups, an episode waits until all of its group are there, and counts as played from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ludus.buffer import Buffer
from ludus.config import needs_greedy
from ludus.experience import (
    Filtered,
    Filters,
    OpenGroups,
    Pipeline,
    Refusals,
    RefusedLog,
    Verified,
    WholeGroups,
    mark_greedy,
    verify,
)
from ludus.orchestrator.dispatcher import Delivery
from ludus.orchestrator.rollout_metrics import RolloutMetrics
from ludus.orchestrator.rooms import Rooms
from ludus.records import Episode, EpisodeBatch, Experiences
from ludus.storage.arrow import episodes_to_table


class RolloutSink:
    """The way from an explorer's hands into the run."""

    def __init__(
        self,
        rooms: Rooms,
        buffer: Buffer | None = None,
        pipeline: Pipeline | None = None,
        *,
        sieve: Filters | None = None,
        is_done: Callable[[int], bool] = lambda task: False,
    ) -> None:
        """The way into `buffer`; without one only evaluation games are expected.

        Args:
            rooms: the run.
            buffer: where verified rows go.
            pipeline: transforms of rewards; without it they stay as they are.
            sieve: operators from raw to verified.
            is_done: of a task, whether its episode is in the log already.
        """
        self._rooms = rooms
        self._buffer = buffer
        self._pipeline = pipeline
        self._sieve = sieve or Filters()
        group = rooms.config.explore.group
        self._groups = OpenGroups(group, is_done) if group > 1 else None
        self._has_greedy = needs_greedy(rooms.config.train.algorithm)
        self._refused = RefusedLog(rooms.run.path, rooms.catalog) if self._sieve else None
        self._sifted: dict[str, float] = {}
        self.refusals = Refusals()
        self.window = RolloutMetrics()
        self.training_episodes = 0
        self.training_steps = 0
        self.fruitless = 0
        """Training episodes in a row of which nothing could be used."""
        self.sifted_away = 0
        """Training episodes in a row that were sound, and of which operators refused everything."""

    @property
    def metrics(self) -> dict[str, float]:
        """What operators saw in the latest groups."""
        return dict(self._sifted)

    def take(self, delivery: Delivery) -> tuple[Episode, ...]:
        """Take a batch in. Returns the training episodes that count as played now: they are on disk."""
        batch, rooms = delivery.batch, self._rooms
        training = tuple(episode for episode in batch.episodes if episode.task.purpose == "train")
        others = [episode for episode in batch.episodes if episode.task.purpose != "train"]
        played = training
        if training and self._buffer is not None:
            played = self._take_training(training, batch.experiences, self._buffer)
        with rooms.telemetry.room("storage"):
            is_all = played is training
            rooms.episodes.append(delivery.episodes_table if is_all else episodes_to_table([*played, *others]))
            rooms.episodes.commit()
        failed = sum(bool(episode.error) for episode in batch.episodes)
        rooms.telemetry.meters.add("explore", len(batch.episodes) - failed, dropped=failed)
        rooms.evaluation.absorb(others)
        self._report_failures(batch.episodes)
        return played

    @property
    def waiting(self) -> int:
        """Training episodes that came back and wait for others of their group."""
        return self._groups.waiting if self._groups is not None else 0

    def to_begin(self, first: int, count: int) -> int:
        """How many tasks to begin from `first` on, when `count` are wanted: groups are begun whole."""
        return self._groups.to_begin(first, count) if self._groups is not None else count

    def why_refused(self) -> str:
        """Reasons with their counts, and the latest example of each."""
        latest = [example for reason in self.refusals.counts for example in self.refusals.examples(reason)[-1:]]
        return "; ".join([f"(refused: {self.refusals.counts})", *latest])

    def refused_tasks(self) -> Iterator[list[int]]:
        """Tasks of which rows were refused and kept apart."""
        return self._refused.tasks() if self._refused is not None else iter(())

    def trim_refused(self, keep_bytes: int, *, settled_before: int) -> None:
        """Give back disk that refused rows take beyond their budget."""
        if self._refused is not None:
            self._refused.trim(keep_bytes, settled_before=settled_before)

    def _report_failures(self, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            if episode.error:
                self._rooms.telemetry.event(
                    "episode_failed",
                    episode=episode.id,
                    task=episode.task.id,
                    game=episode.task.game,
                    error=episode.error,
                )

    def _take_training(
        self, episodes: tuple[Episode, ...], experiences: Experiences, buffer: Buffer
    ) -> tuple[Episode, ...]:
        """Returns the episodes whose groups are complete, and whose rows are in the buffer."""
        rooms, refused_before = self._rooms, self.refusals.total
        with rooms.telemetry.room("experience"):
            raw = EpisodeBatch(episodes=episodes, experiences=experiences)
            verified = self._marked(verify(raw, specs=rooms.specs, known_versions=self._knows))
            self.refusals.add(verified.refused)
            sampled = [each for each in verified.episodes if not any(seat.greedy for seat in each.task.seats)]
            self.window.add([*sampled, *(episode for episode in episodes if episode.error)])
            whole = self._whole_groups(episodes, verified)
            if whole is None:
                return ()
            sifted = self._sift(whole)
            accepted = sifted.kept
            if self._pipeline is not None and len(accepted):
                accepted = self._pipeline.on_step(self._pipeline.on_final(accepted))
        with rooms.telemetry.room("buffer"):
            added = buffer.insert(accepted)
            if self._refused is not None:
                self._refused.add(*whole.refused, sifted.refused)
        meters = rooms.telemetry.meters
        meters.add("experience", len(accepted), dropped=self.refusals.total - refused_before)
        meters.add("buffer", added)
        count = len(whole.episodes)
        self.fruitless = 0 if len(whole.experiences) else self.fruitless + count
        self.sifted_away = 0 if len(accepted) else self.sifted_away + count
        self.training_episodes += len(whole.episodes)
        self.training_steps += int(np.sum(accepted.steps["mask"])) if len(accepted) else 0
        return episodes if self._groups is None else whole.episodes

    def _marked(self, verified: Verified) -> Verified:
        """With greedy attempts told from the others, where there are any in the run."""
        if not self._has_greedy:
            return verified
        return replace(verified, experiences=mark_greedy(verified.experiences, verified.episodes))

    def _whole_groups(self, episodes: tuple[Episode, ...], verified: Verified) -> WholeGroups | None:
        if self._groups is not None:
            return self._groups.add(episodes, verified)
        refused = (verified.refused_rows,)
        return WholeGroups(episodes=episodes, experiences=verified.experiences, refused=refused)

    def _sift(self, whole: WholeGroups) -> Filtered:
        """What the operators keep and refuse."""
        sifted = self._sieve.apply(whole.experiences)
        self.refusals.add(sifted.refusals)
        self._sifted |= sifted.metrics
        return sifted

    def _knows(self, name: str, version: int) -> bool:
        rooms = self._rooms
        return name == rooms.config.policy.name and 0 <= version <= rooms.progress.version
