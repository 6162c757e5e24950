"""The rooms of one run, opened and wired once. Both topologies and the loop work on these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.config import RunConfig
from ludus.errors import ConfigError
from ludus.games.protocol import Game, GameSpec
from ludus.games.text_protocol import TextGame
from ludus.league import Matchmaker, Pool
from ludus.league.matchmaking.lineups import LineUps
from ludus.orchestrator.early_stopping import EarlyStopping
from ludus.orchestrator.evaluation import Evaluation
from ludus.orchestrator.policy_shape import policy_shape
from ludus.orchestrator.policy_start import Start, find_start
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.task_sets import Playables, make_tasks
from ludus.policies import AnyShape, PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.runtime import Supervisor
from ludus.sources.batches_ahead import policies_named
from ludus.storage.atomic import read_json
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import Checkpoint, CheckpointStore
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import SegmentLog
from ludus.tasks import TaskStream
from ludus.telemetry import Telemetry

VERSIONS_KEPT = 16
"""Newest versions that stay on disk beside those in the pool."""


@dataclass(slots=True, kw_only=True)
class Rooms:
    """Everything a run consists of, except its topology."""

    config: RunConfig
    run: RunDirectory
    games: Mapping[str, Game | TextGame]
    specs: dict[str, GameSpec]
    shape: AnyShape
    catalog: Catalog
    checkpoints: CheckpointStore
    policies: PolicyStore
    episodes: SegmentLog
    telemetry: Telemetry
    supervisor: Supervisor
    tasks: TaskStream
    pool: Pool
    matchmaker: Matchmaker
    evaluation: Evaluation
    progress: Progress
    early_stopping: EarlyStopping
    start: Start[AnyShape] | None = None
    """The weights to begin with, where they are another run's."""
    plugins: tuple[str, ...] = ()
    voice: str = ""
    """In a population with language models, and in its learners' runs: the config that they speak by, as JSON."""
    retained: dict[int, dict[str, Any]] = field(default_factory=dict)
    """States of the checkpoints on disk, by update."""
    versions_in_flight: Callable[[], set[PolicyRef]] = set
    """Policies that are being played with now."""

    @property
    def run_name(self) -> str:
        """What episode ids are derived from."""
        return self.config.name

    @property
    def learner(self) -> PolicyRef:
        """The newest version of the policy that learns."""
        return PolicyRef(name=PolicyName(self.config.policy.name), version=PolicyVersion(self.progress.version))

    def state(self) -> dict[str, Any]:
        """What every checkpoint holds, whatever the topology."""
        return {
            "progress": self.progress.state(),
            "league": self.pool.state(),
            "evaluation": self.evaluation.state(),
            "tasks": self.tasks.state(),
            "enough": self.early_stopping.state(),
            "episodes_before": self.episodes.next_seq,
        }

    def index(self, saved: Checkpoint) -> None:
        """Bring the catalog, which people and programs query, up to a checkpoint."""
        with self.catalog.transaction(durable=False):
            self.catalog.add_checkpoint(saved.update, saved.sha256)
            self.catalog.set_cursor("progress", self.progress.state())
            self.pool.write(self.catalog)
        self.retain(saved)

    def retain(self, saved: Checkpoint) -> None:
        """Remember what a resume may go back to; checkpoints that are gone need nothing any more."""
        kept = self.checkpoints.list()
        self.retained = {update: state for update, state in self.retained.items() if update in kept}
        self.retained[saved.update] = saved.state

    def trim_episodes(self) -> int:
        """Drop recorded episodes beyond the disk budget, oldest first, but none that a resume would look for."""
        budget = self.config.record.keep_mb * 1_000_000 // 2
        needed_from = min((state["episodes_before"] for state in self.retained.values()), default=0)
        excess, point = self.episodes.size_bytes() - budget, 0
        for segment in self.episodes.segments():
            if excess <= 0 or segment.end_seq > needed_from:
                break
            excess -= segment.size_bytes
            point = segment.end_seq
        return self.episodes.trim(point) if point else 0

    def publish(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Publish the learner's newest version and remove versions that nobody needs any more."""
        if self.policies.has(self.learner):
            return
        digest = self.policies.publish(self.learner, weights, self.shape, step=self.progress.steps)
        with self.catalog.transaction(durable=False):
            self.catalog.add_policy(self.learner, weights_hash=digest)
        self.telemetry.meters.add("policies", 1)
        self.telemetry.event("published", policy=str(self.learner), weights_hash=digest, step=self.progress.steps)
        self.policies.prune(self.config.policy.name, self._needed_versions())

    def _needed_versions(self) -> set[PolicyRef]:
        """Versions that somebody may still play with: now, or after going back to any checkpoint on disk."""
        needed = {self.learner, *(member.ref for member in self.pool.snapshots), *self.evaluation.participants()}
        needed |= self.versions_in_flight()
        for state in self.retained.values():
            needed |= {PolicyRef.parse(row["ref"]) for row in state["league"]["members"] if row["active"]}
            job = state["evaluation"]["job"] or {"learner": str(self.learner), "opponents": []}
            needed |= {PolicyRef.parse(text) for text in (job["learner"], *job["opponents"])}
            needed |= policies_named(state.get("issued", ()))
        return needed | set(self.policies.versions(self.config.policy.name)[-VERSIONS_KEPT:])

    def close(self) -> None:
        """Close files; worker processes end with the topology."""
        self.telemetry.close()
        self.catalog.close()


def open_rooms(
    config: RunConfig, playables: Playables, run: RunDirectory, log_dir: Path, plugins: Sequence[str]
) -> Rooms:
    """Open every room of a run on its directory."""
    specs = playables.specs
    start = find_start(config)
    catalog = Catalog(run.catalog)
    progress = Progress()
    learner = PolicyRef(name=PolicyName(config.policy.name))
    pool = Pool(config.league, learner)
    if any(choice.kind == "population" for choice in config.league.opponents):
        if not run.opponents.is_file():
            raise ConfigError("league.opponents: kind population is for the learners of a population, and this is none")
        pool.line_ups = LineUps.from_json(read_json(run.opponents))
    for name in config.evaluate.against:
        pool.add_fixed(name)
    tasks = make_tasks(config, playables)
    return Rooms(
        config=config,
        run=run,
        games=playables.games,
        specs=specs,
        shape=policy_shape(config, specs, start),
        start=start,
        catalog=catalog,
        checkpoints=CheckpointStore(run.checkpoints, config.checkpoint.keep),
        policies=PolicyStore(run.policies),
        episodes=SegmentLog(run.path, "episodes", catalog),
        telemetry=Telemetry(run, config.name),
        supervisor=Supervisor(log_dir, max_restarts=config.runtime.max_restarts),
        tasks=tasks,
        pool=pool,
        matchmaker=Matchmaker(config.league, pool, config.seed),
        evaluation=Evaluation(config.evaluate, tasks, pool, playables.game_specs),
        progress=progress,
        early_stopping=EarlyStopping(config.train.stop),
        plugins=tuple(plugins),
        voice=run.voice.read_text() if run.voice.is_file() else "",
    )
