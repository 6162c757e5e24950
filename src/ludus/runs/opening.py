"""Opens a run of one policy: chooses the source and the learner that its config asks for, and wires the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ludus.buffer import ImportStore
from ludus.config import RunConfig, wanted_sources
from ludus.errors import ConfigError
from ludus.experience import build_pipeline
from ludus.league import Matchmaker, Pool
from ludus.league.matchmaking.population import LineUps
from ludus.loop import Loop
from ludus.orchestrator import (
    Evaluation,
    Evaluator,
    Explorers,
    MeasuringMilestones,
    Milestones,
    Playables,
    Progress,
    ResultLog,
    RolloutSink,
    RunContext,
    RunStore,
    Workers,
)
from ludus.orchestrator.absolute_measures import make_measures
from ludus.orchestrator.check_parts import evaluation_streams, make_tasks
from ludus.orchestrator.engine_servers import EngineServers
from ludus.orchestrator.evaluation import HeldOut
from ludus.orchestrator.policy_repair import PolicyRepair
from ludus.orchestrator.trainer_client import TrainerClient
from ludus.records import Episode, PolicyName, PolicyRef
from ludus.runs.cycle import Cycle, CycleSource
from ludus.runs.driver import Controls
from ludus.runs.loader_rounds import LoaderRounds
from ludus.sources.async_rollouts import AsyncRollouts, ExploreOnly
from ludus.sources.feeds import FeedSource
from ludus.sources.mixed import MixedSource
from ludus.sources.offline import open_offline
from ludus.sources.producer import Producer
from ludus.sources.protocol import BatchSource
from ludus.sources.row_store import RowStore
from ludus.sources.sync_rollouts import SyncRollouts
from ludus.sources.task_issuer import TaskIssuer
from ludus.sources.without_rollouts import NoRollouts, PulledRows
from ludus.storage.atomic import read_json
from ludus.storage.run_directory import RunDirectory
from ludus.tasks import TaskStream

EVALUATION_SLOTS = 64
"""Games at a time in the one explorer of a run that plays its training games elsewhere."""


def open_pool(config: RunConfig, run: RunDirectory) -> Pool:
    """The league's pool, with the players that the config names."""
    pool = Pool(config.league, PolicyRef(name=PolicyName(config.policy.name)))
    if any(choice.kind == "population" for choice in config.league.opponents):
        if not run.opponents.is_file():
            raise ConfigError("league.opponents: kind population is for the learners of a population, and this is none")
        pool.line_ups = LineUps.from_json(read_json(run.opponents))
    for name in config.evaluate.against:
        pool.add_fixed(name)
    return pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What sources, learners and the loop around them are made of."""

    context: RunContext
    store: RunStore
    controls: Controls
    workers: Workers
    tasks: TaskStream
    pool: Pool
    matchmaker: Matchmaker
    evaluation: Evaluation
    milestones: Milestones
    cycle: Cycle
    progress: Progress
    repair: Callable[[PolicyRef], bool]
    """Makes a damaged version usable, or takes it out of the league."""


def open_loop(
    context: RunContext, playables: Playables, store: RunStore, controls: Controls, *, until: int | None = None
) -> Loop:
    """The loop of a run, ready to begin."""
    config, progress = context.config, Progress()
    pool, tasks = open_pool(config, context.run), make_tasks(config, playables)
    results = ResultLog(context.telemetry, context.run.metrics)
    measures = make_measures(playables.game_specs, context.shape, store.policies)
    held_out = HeldOut(specs=playables.held_out_specs, streams=evaluation_streams(config, playables))
    milestones = MeasuringMilestones if config.mode == "evaluate" else Milestones
    parts = Parts(
        context=context,
        store=store,
        controls=controls,
        workers=Workers(context.supervisor),
        tasks=tasks,
        pool=pool,
        matchmaker=Matchmaker(config.league, pool, config.seed),
        evaluation=Evaluation(config.evaluate, tasks, pool, playables.game_specs, results.report, measures, held_out),
        milestones=milestones(config, progress, until=until),
        cycle=Cycle(config.cycle),
        progress=progress,
        repair=PolicyRepair(context, store, progress, pool).repair,
    )
    EngineServers(context, parts.workers).start(lambda: controls.is_stopping)
    if config.mode == "evaluate":
        return _measuring(parts)
    if config.topology == "split":
        return _split(parts)
    return _own_source(parts)


def _measuring(parts: Parts) -> Loop:
    """Mode evaluate: versions of another run, one after the other."""
    from ludus.runs.evaluate import Measurer, VersionSource

    context = parts.context
    explorers = Explorers(context, parts.workers, _evaluation_sink(parts), count=context.config.explore.workers)
    evaluator = _evaluator(parts, explorers)
    learner = Measurer(context, parts.store, parts.pool, evaluator, parts.progress, parts.controls)
    return Loop(parts, VersionSource(context), learner, explorers, evaluator)


def _own_source(parts: Parts) -> Loop:
    """A learner that makes its own data; an explorer process plays its evaluation games."""
    context = parts.context
    sink = _evaluation_sink(parts)
    explorers = Explorers(context, parts.workers, sink, count=1, slots=EVALUATION_SLOTS, repair=parts.repair)
    if context.config.topology == "tabular":
        from ludus.runs.exact_psro import ExactPsroLearner

        exact = ExactPsroLearner(context)
        return Loop(parts, exact, exact, explorers, _evaluator(parts, explorers))
    from ludus.orchestrator.fused.fused import FusedLearner

    fused = FusedLearner(context, parts.store, parts.pool, parts.workers, parts.milestones, parts.repair)
    return Loop(parts, fused, fused, explorers, _evaluator(parts, explorers))


def _split(parts: Parts) -> Loop:
    """Explorers and a trainer as processes of their own."""
    context, config = parts.context, parts.context.config
    rows = RowStore(context, parts.store, parts.evaluation, parts.progress)

    def note(played: tuple[Episode, ...]) -> None:
        parts.tasks.absorb(played)
        rows.done.add(episode.task.id for episode in played)
        if config.schedule == "sync":
            rows.cut_off.note(played)

    count = config.explore.workers
    explorers = Explorers(context, parts.workers, rows.sink, count=count, on_played=note, repair=parts.repair)
    issuer = TaskIssuer(parts.tasks, parts.matchmaker, context.specs, explorers, parts.progress, rows.done)
    learner = TrainerClient(context, parts.store, parts.workers, parts.milestones)
    rollouts = _rollouts(parts, rows, issuer, learner)
    imports = ImportStore(context.run.path, parts.store.catalog)

    def take_inbox() -> None:
        imports.take_inbox()
        rows.buffer.discard(imports.rejected)

    transformed_on_arrival = config.schedule == "async" or config.mode != "both"
    source = MixedSource(
        rollouts,
        open_offline(config, context.run, imports),
        build_pipeline(config.experience),
        take_inbox=take_inbox,
        raw_from=lambda: rows.log.next_seq if transformed_on_arrival else 0,
    )
    loop = Loop(parts, source, learner, explorers, _evaluator(parts, explorers))
    if isinstance(rollouts, CycleSource):
        rollouts.bind(loop)
    return loop


def _rollouts(parts: Parts, rows: RowStore, issuer: TaskIssuer, learner: TrainerClient) -> BatchSource:
    """Where the policy's own experience comes from."""
    context, config, progress, store = parts.context, parts.context.config, parts.progress, parts.store
    if config.buffer.loader is not None:
        producer = Producer(context, parts.workers)
        if config.cycle is None:
            return PulledRows(
                rows,
                in_flight=lambda: learner.in_flight,
                most_in_flight=learner.depth,
                told=learner.loader.metrics,
                produce=producer.start,
            )
        telemetry, controls = context.telemetry, parts.controls
        return LoaderRounds(rows, learner, parts.cycle, controls, parts.workers, progress, telemetry, producer)
    if "on_policy" not in wanted_sources(config.train.algorithm):
        return NoRollouts(rows)
    if config.mode == "both" and config.schedule == "sync" and config.cycle is None:
        return SyncRollouts(context, rows, issuer, parts.workers, progress, store.episodes)

    def in_flight() -> int:
        return learner.in_flight

    if config.mode == "explore":
        return ExploreOnly(parts.workers, context, rows, issuer, progress, store)
    kind = FeedSource if config.buffer.feeds else AsyncRollouts
    explores = {} if config.buffer.feeds else {"explores": config.mode != "train"}
    inner = kind(context, rows, issuer, progress, store, in_flight=in_flight, most_in_flight=learner.depth, **explores)
    if config.cycle is None and not config.buffer.feeds:
        return inner
    return CycleSource(inner, parts.cycle, parts.controls, parts.workers, progress, context.telemetry)


def _evaluation_sink(parts: Parts) -> RolloutSink:
    return RolloutSink(parts.context, parts.store, parts.evaluation, parts.progress)


def _evaluator(parts: Parts, explorers: Explorers) -> Evaluator:
    return Evaluator(parts.evaluation, explorers, parts.workers, parts.context.telemetry, parts.store.episodes)
