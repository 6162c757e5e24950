"""What happens to episodes that come back: checked, filtered, put into the buffer, counted and logged.

Invariant: an episode's experience is on disk before the episode is, and the episode is what counts as played. A kill in
between makes the task be played again, which changes nothing: rows that are there already are not inserted twice. Where
tasks come in groups, an episode waits until all of its group are there, and counts as played from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ludus.buffer import Buffer
from ludus.config import needs_greedy
from ludus.experience import (
    Filters,
    OpenGroups,
    Refusals,
    RefusedLog,
    Verified,
    WholeGroups,
    mark_greedy,
    verify,
)
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.dispatcher import Delivery
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.run_store import RunStore
from ludus.records import Episode, EpisodeBatch, Experiences
from ludus.storage.arrow import episodes_to_table

if TYPE_CHECKING:
    from ludus.orchestrator.evaluation import Evaluation


@dataclass(slots=True, kw_only=True)
class SinkCounts:
    """Of training episodes, since this start."""

    training_episodes: int = 0
    training_steps: int = 0
    fruitless: int = 0
    """Episodes in a row of which nothing could be used."""
    filtered_away: int = 0
    """Episodes in a row that were sound, and of which operators refused everything."""


class RolloutSink:
    """The way from an explorer's hands into the run."""

    def __init__(
        self,
        context: RunContext,
        store: RunStore,
        evaluation: Evaluation,
        progress: Progress,
        buffer: Buffer | None = None,
        *,
        filters: Filters | None = None,
        is_done: Callable[[int], bool] = lambda task: False,
    ) -> None:
        """The way into `buffer`; without one only evaluation games are expected.

        `filters` are the operators from raw to verified; `is_done` tells whether a task's episode is in the log.
        """
        config = context.config
        self._context = context
        self._episodes = store.episodes
        self._evaluation = evaluation
        self._progress = progress
        self._buffer = buffer
        self._filters = filters or Filters()
        self._groups = OpenGroups(config.explore.group, is_done) if config.explore.group > 1 else None
        self._refused = RefusedLog(context.run.path, store.catalog) if self._filters else None
        self.metrics: dict[str, float] = {}
        """What operators saw in the latest groups."""
        self.refusals = Refusals()
        self.window = RolloutMetrics()
        self.counts = SinkCounts()

    def take(self, delivery: Delivery) -> tuple[Episode, ...]:
        """Take a batch in. Returns the training episodes that count as played now: they are on disk."""
        batch, telemetry = delivery.batch, self._context.telemetry
        training = tuple(episode for episode in batch.episodes if episode.task.purpose == "train")
        others = [episode for episode in batch.episodes if episode.task.purpose != "train"]
        played = training
        if training and self._buffer is not None:
            played = self._take_training(training, batch.experiences, self._buffer)
        with telemetry.room("storage"):
            is_all = played is training
            self._episodes.append(delivery.episodes_table if is_all else episodes_to_table([*played, *others]))
            self._episodes.commit()
        failed = sum(bool(episode.error) for episode in batch.episodes)
        telemetry.meters.add("explore", len(batch.episodes) - failed, dropped=failed)
        self._evaluation.absorb(others)
        for each in batch.episodes:
            if each.error:
                failure = {"task": each.task.id, "game": each.task.game, "error": each.error}
                telemetry.event("episode_failed", episode=each.id, **failure)
        return played

    @property
    def waiting(self) -> int:
        """Training episodes that came back and wait for others of their group."""
        return self._groups.waiting if self._groups is not None else 0

    def to_begin(self, first: int, count: int) -> int:
        """How many tasks to begin from `first` on, when `count` are wanted: groups are begun whole."""
        return self._groups.to_begin(first, count) if self._groups is not None else count

    def forget(self, tasks: Sequence[int]) -> None:
        """These tasks were cut off: what waits of their groups goes, and so do rows that nobody has trained on."""
        if self._groups is not None:
            self._groups.drop(tasks)
        if self._buffer is not None:
            self._buffer.discard(tasks=tasks)

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

    def _take_training(
        self, episodes: tuple[Episode, ...], experiences: Experiences, buffer: Buffer
    ) -> tuple[Episode, ...]:
        """Returns the episodes whose groups are complete, and whose rows are in the buffer."""
        telemetry, refused_before = self._context.telemetry, self.refusals.total
        with telemetry.room("experience"):
            raw = EpisodeBatch(episodes=episodes, experiences=experiences)
            verified = self._marked(verify(raw, specs=self._context.specs, known_versions=self._knows))
            self.refusals.add(verified.refused)
            sampled = [each for each in verified.episodes if not any(seat.greedy for seat in each.task.seats)]
            self.window.add([*sampled, *(episode for episode in episodes if episode.error)])
            whole = self._whole_groups(episodes, verified)
            if whole is None:
                return ()
            filtered = self._filters.apply(whole.experiences)
            self.refusals.add(filtered.refusals)
            self.metrics |= filtered.metrics
            accepted = filtered.kept
        with telemetry.room("buffer"):
            added = buffer.insert(accepted)
            if self._refused is not None:
                self._refused.add(*whole.refused, filtered.refused)
        meters = telemetry.meters
        meters.add("experience", len(accepted), dropped=self.refusals.total - refused_before)
        meters.add("buffer", added)
        count = len(whole.episodes)
        self.counts.fruitless = 0 if len(whole.experiences) else self.counts.fruitless + count
        self.counts.filtered_away = 0 if len(accepted) else self.counts.filtered_away + count
        self.counts.training_episodes += len(whole.episodes)
        self.counts.training_steps += int(np.sum(accepted.steps["mask"])) if len(accepted) else 0
        return episodes if self._groups is None else whole.episodes

    def _marked(self, verified: Verified) -> Verified:
        """With greedy attempts told from the others, where there are any in the run."""
        if not needs_greedy(self._context.config.train.algorithm):
            return verified
        return replace(verified, experiences=mark_greedy(verified.experiences, verified.episodes))

    def _whole_groups(self, episodes: tuple[Episode, ...], verified: Verified) -> WholeGroups | None:
        if self._groups is not None:
            return self._groups.add(episodes, verified)
        refused = (verified.refused_rows,)
        return WholeGroups(episodes=episodes, experiences=verified.experiences, refused=refused)

    def _knows(self, name: str, version: int) -> bool:
        return name == self._context.policy and 0 <= version <= self._progress.version


WINDOW = 512


class RolloutMetrics:
    """Rewards, results and lengths of the last `WINDOW` training episodes of each game since this start."""

    def __init__(self) -> None:
        self._episodes: dict[str, deque[Episode]] = {}
        self.failed = 0

    def add(self, episodes: Sequence[Episode]) -> None:
        """Take finished training episodes."""
        for episode in episodes:
            if episode.error:
                self.failed += 1
            else:
                self._episodes.setdefault(episode.task.game, deque(maxlen=WINDOW)).append(episode)

    def metrics(self) -> dict[str, float]:
        """`explore/<game>/...` for each game; a single game also without its name."""
        values: dict[str, float] = {"explore/failed_episodes": float(self.failed)}
        for game, episodes in self._episodes.items():
            means = _means(list(episodes))
            values.update({f"explore/{game}/{name}": value for name, value in means.items()})
            if len(self._episodes) == 1:
                values.update({f"explore/{name}": value for name, value in means.items()})
        return values


def _replies(episodes: Sequence[Episode]) -> dict[str, float]:
    """In games of words, of what the learning seats said: how much had the form that was asked for, which share of the
    moves the rules did not allow, and how long replies were."""
    spoken = [(episode, seat) for episode in episodes for seat in _learning(episode) if episode.replies]
    share = invalid_share(spoken)
    if share is None:
        return {}
    if episodes[0].task.is_attempt:
        return {"invalid_moves": share}
    said = [
        (bool(move), len(reply))
        for episode, seat in spoken
        for who, move, reply in zip(episode.move_seats, episode.move_texts, episode.replies, strict=True)
        if who == seat
    ]
    formed, characters = np.array(said, np.float64).mean(axis=0)
    return {"invalid_moves": share, "format_success": float(formed), "reply_chars": float(characters)}


def _learning(episode: Episode) -> list[int]:
    return [seat for seat, who in enumerate(episode.task.seats) if who.learns]


def invalid_share(seats: Iterable[tuple[Episode, int]]) -> float | None:
    """Of the moves that these seats tried, the share that was not allowed; None when they tried none."""
    tried = [episode.move_actions[episode.move_seats == seat] for episode, seat in seats]
    accepted = np.concatenate([np.zeros(0, np.int32), *tried])
    return float(np.mean(accepted == 0)) if len(accepted) else None


def _means(episodes: Sequence[Episode]) -> dict[str, float]:
    returns = np.array([episode.returns for episode in episodes], np.float64)
    best = returns.max(axis=1, keepdims=True)
    drawn = (returns == best).all(axis=1) & (returns.shape[1] > 1)
    values = {
        **_replies(episodes),
        "length": float(np.mean([episode.length for episode in episodes])),
        **({} if episodes[0].task.is_attempt else {"draws": float(drawn.mean())}),
    }
    learnt = [episode.returns[seat] for episode in episodes for seat in _learning(episode)]
    if learnt:
        values["reward"] = float(np.mean(learnt))
    if episodes[0].task.is_attempt:
        return values
    for seat in range(returns.shape[1]):
        values[f"seat_{seat}/reward"] = float(returns[:, seat].mean())
        values[f"seat_{seat}/wins"] = float(((returns[:, seat] == best[:, 0]) & ~drawn).mean())
    return values
