"""What the workers of a run take of the nodes that they run on, and which workers there are."""

from __future__ import annotations

import msgspec

from ludus.config import RunConfig, compute_threads
from ludus.config.sections.runtime import NeedsConfig
from ludus.runtime import Launcher, available_cores
from ludus.runtime.needs import Needs, Plan, Wanted
from ludus.train.learners import has_chess_losses, local_devices

TRAINER, EXPLORER, SERVER = "trainer", "explorer", "engine"


def explorer_needs(config: RunConfig) -> Needs:
    """What an explorer takes; it runs beside a server, where the run starts some."""
    beside = SERVER if server_names(config) else ""
    return msgspec.structs.replace(_needs(config.runtime.explore, threads=1), beside=beside)


def trainer_needs(config: RunConfig) -> Needs:
    """What each trainer takes; several are placed all or none."""
    group = TRAINER if other_trainers(config) else ""
    return msgspec.structs.replace(_needs(config.runtime.train, threads=trainer_threads(config)), group=group)


def server_needs(config: RunConfig) -> Needs:
    """What each inference server takes."""
    engine, needs = config.explore.engine, config.runtime.engine
    gpus = getattr(engine, "tensor_parallel", 0) if needs.gpus is None else needs.gpus
    return _needs(needs.model_copy(update={"gpus": gpus}), threads=1)


def server_threads(config: RunConfig) -> int:
    """Threads of each inference server: the CPUs that it is given."""
    return max(1, int(config.runtime.engine.cpus or 1))


def server_names(config: RunConfig) -> list[str]:
    """The inference servers that a run starts."""
    return [f"{SERVER}-{number}" for number in range(getattr(config.explore.engine, "servers", None) or 0)]


def trainer_threads(config: RunConfig) -> int:
    """Compute threads of the trainer of a split run."""
    return max(config.runtime.threads or 1, local_devices(config))


def learner_threads(config: RunConfig, launcher: Launcher) -> int:
    """Compute threads of a fused learner's worker: `runtime.threads`, or as on this machine if a node has as many."""
    threads, cpus = compute_threads(config, available_cores()), launcher.node_cpus()
    return threads if config.runtime.threads or not cpus else max(1, min(threads, int(max(cpus))))


def other_trainers(config: RunConfig) -> list[str]:
    """Names of those that share the trainer's minibatches as workers of their own, in the order of their ranks."""
    if config.runtime.kind != "ray" or config.buffer.loader is not None or has_chess_losses(config):
        return []
    return [f"{TRAINER}-{rank}" for rank in range(1, config.train.trainers)]


def explorer_name(number: int) -> str:
    """Such as `explorer-0`."""
    return f"{EXPLORER}-{number}"


def plan_workers(config: RunConfig) -> Plan:
    """The workers that a run begins with on a cluster."""
    if config.population is not None:  # as many learners as fit; each worker of one must fit somewhere
        return Plan(autoscaler_s=config.runtime.autoscaler_s or 0.0)
    is_split = config.topology == "split"
    count = config.explore.workers if is_split or config.mode == "evaluate" else 1
    explorers = [Wanted(name=explorer_name(number), needs=explorer_needs(config)) for number in range(count)]
    trains = is_split and config.mode != "evaluate"
    names = [TRAINER, *other_trainers(config)] if trains and config.buffer.loader is None else []
    servers = [Wanted(name=name, needs=server_needs(config)) for name in server_names(config)]
    trainers = [Wanted(name=name, needs=trainer_needs(config)) for name in names]
    most_spare = config.explore.most_workers - config.explore.workers if is_split else 0
    return Plan(
        workers=[*servers, *trainers, *explorers],
        spare=explorer_needs(config) if most_spare else None,
        most_spare=most_spare,
        autoscaler_s=config.runtime.autoscaler_s or 0.0,
    )


def _needs(config: NeedsConfig, *, threads: int) -> Needs:
    return Needs(
        cpus=float(threads) if config.cpus is None else config.cpus,
        gpus=config.gpus,
        resources=config.resources,
        labels=config.labels,
    )
