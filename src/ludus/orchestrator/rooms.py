"""The rooms of one run, opened and wired once. Both topologies and the loop work on these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ludus.config import RunConfig, needs_critic
from ludus.errors import ConfigError
from ludus.experience import build_filters, build_pipeline
from ludus.explore.players.fixed import make_player
from ludus.explore.players.text import make_text_player
from ludus.explore.prompts import find_prompt
from ludus.games import Game, make_game
from ludus.games.device_game import find_device_game
from ludus.games.global_state import state_size
from ludus.games.protocol import GameSpec
from ludus.games.text_protocol import TextGame
from ludus.games.text_registry import make_text_game
from ludus.league import Matchmaker, Pool, make_sampler
from ludus.league.matchmaking.lineups import LineUps
from ludus.lm.extraction import check_extraction
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.model_folder import find_model_folder
from ludus.orchestrator.early_stopping import EarlyStopping
from ludus.orchestrator.evaluation import Evaluation
from ludus.orchestrator.policy_start import Start, check_fits_games, find_start
from ludus.orchestrator.progress import Progress
from ludus.orchestrator.source_problems import source_problems
from ludus.orchestrator.task_sets import TasksetGame, find_tasksets, make_tasks
from ludus.orchestrator.teacher import check_teacher
from ludus.policies import AnyShape, PolicyShape, PolicyStore, TabularShape
from ludus.records import PolicyName, PolicyRef, PolicyVersion
from ludus.rewards.making import check_rewards
from ludus.runtime import Supervisor
from ludus.sources.batches_ahead import policies_named
from ludus.storage.atomic import read_json
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import Checkpoint, CheckpointStore
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segments import SegmentLog
from ludus.tasks import GameTasks, TasksetTasks
from ludus.telemetry import Telemetry

Games = Mapping[str, Game | TextGame | TasksetGame]
"""What a run plays, by key: boards for networks, games of words or tasksets for language models."""

CHANNELS_LAST = ("pgx:", "pettingzoo:")
"""Games whose boards have their planes in the last axis."""
VERSIONS_KEPT = 16
"""Newest versions that stay on disk beside those in the pool."""


@dataclass(slots=True, kw_only=True)
class Rooms:
    """Everything a run consists of, except its topology."""

    config: RunConfig
    run: RunDirectory
    games: Games
    specs: dict[str, GameSpec]
    shape: AnyShape
    catalog: Catalog
    checkpoints: CheckpointStore
    policies: PolicyStore
    episodes: SegmentLog
    telemetry: Telemetry
    supervisor: Supervisor
    tasks: GameTasks | TasksetTasks
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
            **({"tasks": self.tasks.state()} if isinstance(self.tasks, TasksetTasks) else {}),
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


def check_parts(config: RunConfig, run: RunDirectory | None = None) -> Games:
    """Make every game of a config, and check that all parts that it names exist and fit together; `run` may have some.

    Raises:
        ConfigError: one line for each part that is unknown or does not fit; nothing has been written yet.
    """
    problems: list[str] = []
    games: Games = {}
    if config.population is not None and config.population.oracle == "exact":
        games = _find_tabular_game(config, problems)
    elif config.tasks:
        games = find_tasksets(config, problems)
        with collecting(problems):
            check_rewards(config.rewards)
        _check_endpoints(config, problems)
        _find_voice(config, problems)
    else:
        games = _find_text_games(config, problems) if config.policy.model else _find_boards(config, problems)
    for choice in config.league.opponents:
        with collecting(problems):
            make_sampler(choice)
    with collecting(problems):
        build_pipeline(config.experience)
    with collecting(problems):
        build_filters(config.experience)
    if config.mode != "evaluate":
        problems += source_problems(config)
        with collecting(problems):
            check_teacher(config, run)
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    return games


def _find_tabular_game(config: RunConfig, problems: list[str]) -> dict[str, Game]:
    from ludus.games.sequence_form_building import load_turn_based

    games: dict[str, Game] = {}
    for choice in config.games:
        with collecting(problems):
            games[choice.key] = make_game(choice.key)
            load_turn_based(choice.key.removeprefix("open_spiel:"))
    return games


def _find_boards(config: RunConfig, problems: list[str]) -> dict[str, Game]:
    games: dict[str, Game] = {}
    with collecting(problems):
        games = {choice.key: make_game(choice.key) for choice in config.games}
    if games:
        with collecting(problems):
            shape = network_shape(config, {key: game.spec for key, game in games.items()})
            check_fits_games(find_start(config), shape)
    if config.topology == "fused":
        for game in games.values():
            with collecting(problems):
                find_device_game(game)
    for name in _fixed_players(config):
        for game in games.values():
            with collecting(problems):
                make_player(name, game)
    return games


def _find_text_games(config: RunConfig, problems: list[str]) -> dict[str, TextGame]:
    games: dict[str, TextGame] = {}
    with collecting(problems):
        games = {choice.key: make_text_game(choice.key) for choice in config.games}
    _check_endpoints(config, problems)
    for name in sorted(set(_fixed_players(config)) - config.explore.endpoints.keys()):
        for game in games.values():
            with collecting(problems):
                make_text_player(name, game)
    _find_voice(config, problems)
    return games


def _find_voice(config: RunConfig, problems: list[str]) -> None:
    """What a language model speaks with: its prompt, how its words are read, and the model itself."""
    with collecting(problems):
        find_prompt(config.explore.speech.prompt)
    with collecting(problems):
        check_extraction(config.explore.speech.action)
    if config.policy.model is not None:
        with collecting(problems):
            find_model_folder(config.policy.model.path)
        with collecting(problems):
            find_start(config)


def _check_endpoints(config: RunConfig, problems: list[str]) -> None:
    if not config.explore.endpoints:
        return
    from ludus.explore.players.endpoints import check_endpoint

    for name, endpoint in config.explore.endpoints.items():
        with collecting(problems):
            check_endpoint(name, endpoint)


def _fixed_players(config: RunConfig) -> list[str]:
    players = {name for choice in config.league.opponents for name in choice.players}
    players |= set(config.warm_start.players if config.warm_start else ())
    return sorted(players | set(config.evaluate.against))


@contextmanager
def collecting(problems: list[str]) -> Iterator[None]:
    """Note what is wrong instead of stopping at it."""
    try:
        yield
    except ConfigError as error:
        problems += error.problems


def open_rooms(config: RunConfig, games: Games, run: RunDirectory, log_dir: Path, plugins: Sequence[str]) -> Rooms:
    """Open every room of a run on its directory."""
    specs = {key: game.spec for key, game in games.items()}
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
    tasks = make_tasks(config, games)
    return Rooms(
        config=config,
        run=run,
        games=games,
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
        evaluation=Evaluation(config.evaluate, tasks, pool, specs),
        progress=progress,
        early_stopping=EarlyStopping(config.train.stop),
        plugins=tuple(plugins),
        voice=run.voice.read_text() if run.voice.is_file() else "",
    )


def policy_shape(config: RunConfig, specs: dict[str, GameSpec], start: Start[AnyShape] | None = None) -> AnyShape:
    """What the policy is: a network that fits the games, or a language model, which fits all of them."""
    if config.mode == "evaluate" and start is not None:
        return start.shape
    if config.population is not None and config.population.oracle == "exact":
        return TabularShape(game=config.games[0].key)
    if config.policy.model is None:
        return network_shape(config, specs)
    model = config.policy.model
    if start is not None and isinstance(start.shape, LanguageModelShape):
        model = model.model_copy(update={"path": start.shape.model.path})
    return LanguageModelShape(model=model, critic=needs_critic(config.train.algorithm), games=tuple(specs))


def network_shape(config: RunConfig, specs: dict[str, GameSpec]) -> PolicyShape:
    """The one shape that all games of a run must share, because one network plays them."""
    shapes = {(spec.observation_shape, spec.actions) for spec in specs.values()}
    if len(shapes) > 1:
        found = "; ".join(
            f"{key}: sees {spec.observation_shape}, {spec.actions} actions" for key, spec in specs.items()
        )
        raise ConfigError(f"games: one network cannot play games of different shapes ({found})")
    observation_shape, actions = shapes.pop()
    if not observation_shape:
        raise ConfigError(f"games: {', '.join(specs)} has no observation tensor for a network to see")
    layout = "channels_last" if all(key.startswith(CHANNELS_LAST) for key in specs) else "channels_first"
    critic = config.policy.critic or "shared"
    return PolicyShape(
        network=config.policy.network,
        observation_shape=observation_shape,
        actions=actions,
        layout=layout,
        games=tuple(specs),
        critic=critic,
        state_size=_state_size(specs) if critic == "central" else 0,
        normalises_value=bool(config.train.value_normalisation),
    )


def _state_size(specs: dict[str, GameSpec]) -> int:
    """What a central critic sees of every game of the run."""
    sizes = {key: state_size(spec) for key, spec in specs.items()}
    if len(set(sizes.values())) > 1:
        found = "; ".join(f"{key}: {size} numbers" for key, size in sizes.items())
        raise ConfigError(f"policy.critic: one central critic cannot see states of different sizes ({found})")
    return next(iter(sizes.values()))
