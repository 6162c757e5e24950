"""What happens to episodes that come back: logged, counted, checked, transformed, and put into the buffer.

Invariant: an episode's experience is on disk before the episode is, and the episode is what counts as played. A kill in
between makes the task be played again, which changes nothing: rows that are there already are not inserted twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ludus.buffer import Buffer
from ludus.experience import Pipeline, Refusals, verify
from ludus.records import Episode, EpisodeBatch, Experiences
from ludus.topologies.explorers import Delivery
from ludus.topologies.rooms import Rooms
from ludus.topologies.window import Window


class Intake:
    """The way from an explorer's hands into the run."""

    def __init__(self, rooms: Rooms, buffer: Buffer | None = None, pipeline: Pipeline | None = None) -> None:
        """Without a buffer only evaluation games are expected; without a pipeline, rewards stay as they are."""
        self._rooms = rooms
        self._buffer = buffer
        self._pipeline = pipeline
        self.refusals = Refusals()
        self.window = Window()
        self.training_episodes = 0
        self.training_steps = 0
        self.fruitless = 0
        """Training episodes in a row of which nothing could be used."""

    def take(self, delivery: Delivery) -> None:
        """Take a batch in. When this returns, it is on disk."""
        batch, rooms = delivery.batch, self._rooms
        training = [episode for episode in batch.episodes if episode.task.purpose == "train"]
        if training and self._buffer is not None:
            self._take_training(training, batch.experiences, self._buffer)
        with rooms.telemetry.room("storage"):
            rooms.episodes.append(delivery.episodes_table)
            rooms.episodes.commit()
        rooms.evaluation.absorb([episode for episode in batch.episodes if episode.task.purpose == "evaluate"])
        self._report_failures(batch.episodes)

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

    def _take_training(self, episodes: Sequence[Episode], experiences: Experiences, buffer: Buffer) -> None:
        rooms = self._rooms
        with rooms.telemetry.room("experience"):
            raw = EpisodeBatch(episodes=tuple(episodes), experiences=experiences)
            verified = verify(raw, specs=rooms.specs, known_versions=self._knows)
            self.refusals.add(verified.refused)
            self.window.add([*verified.episodes, *(episode for episode in episodes if episode.error)])
            accepted = verified.experiences
            if self._pipeline is not None:
                accepted = self._pipeline.on_step(self._pipeline.on_final(accepted))
        with rooms.telemetry.room("buffer"):
            buffer.insert(accepted)
        self.fruitless = 0 if len(accepted) else self.fruitless + len(episodes)
        self.training_episodes += len(episodes)
        self.training_steps += int(np.sum(accepted.steps["mask"])) if len(accepted) else 0

    def _knows(self, name: str, version: int) -> bool:
        rooms = self._rooms
        return name == rooms.config.policy.name and 0 <= version <= rooms.progress.version
