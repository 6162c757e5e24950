"""What a run is, as every part of it sees it: config, directory, games, policy shape, telemetry, workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ludus.config import RunConfig, parse_config
from ludus.games.protocol import Game, GameSpec, TextGame
from ludus.orchestrator.check_parts import Playables
from ludus.orchestrator.node_needs import NodeNeeds, both, find_needs
from ludus.orchestrator.placement import plan_workers
from ludus.orchestrator.policy_start import Start, find_start, policy_shape
from ludus.policies import AnyShape
from ludus.records import PolicyName
from ludus.runtime import ForkLauncher, Launcher, Supervisor
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Fixed for one start of a run. A part that needs more gets it by name."""

    config: RunConfig
    run: RunDirectory
    games: Mapping[str, Game | TextGame]
    specs: dict[str, GameSpec]
    """What an episode can be checked against, by what its task has as game."""
    shape: AnyShape
    start: Start[AnyShape] | None
    """The weights to begin with, where they are another run's."""
    plugins: tuple[str, ...]
    lm_config: str
    """In a population with language models, and in its learners' runs: the config they sample by, as JSON."""
    telemetry: Telemetry
    supervisor: Supervisor
    launcher: Launcher

    @property
    def policy(self) -> PolicyName:
        """The name of the policy that learns."""
        return PolicyName(self.config.policy.name)


def open_context(
    config: RunConfig,
    playables: Playables,
    run: RunDirectory,
    log_dir: Path,
    plugins: Sequence[str],
    whole: Launcher | None = None,
) -> RunContext:
    """The context of one start; worker logs go to `log_dir`. `whole` is that of the run that this is part of."""
    specs, telemetry = playables.specs, Telemetry(run, config.name)
    start = find_start(config)
    shape = policy_shape(config, specs, start)
    launcher: Launcher = ForkLauncher(run.path)
    lm_config = run.lm_config.read_text() if run.lm_config.is_file() else ""
    if config.runtime.kind == "ray":
        needs = find_needs(config, run, shape, start, plugins)
        if lm_config and config.policy.model is None:  # others speak in its games
            speaking = parse_config(lm_config, run.lm_config.name, stored=True)
            begun = find_start(speaking)
            needs = both(needs, find_needs(speaking, run, policy_shape(speaking, specs, begun), begun, plugins))
        launcher = _ray_launcher(config, run, log_dir, needs, whole, telemetry)
    return RunContext(
        config=config,
        run=run,
        games=playables.games,
        specs=specs,
        shape=shape,
        start=start,
        plugins=tuple(plugins),
        lm_config=lm_config,
        telemetry=telemetry,
        supervisor=Supervisor(
            log_dir,
            max_restarts=config.runtime.max_restarts,
            tell=telemetry.event,
            launcher=launcher,
        ),
        launcher=launcher,
    )


def _ray_launcher(
    config: RunConfig,
    run: RunDirectory,
    log_dir: Path,
    needs: NodeNeeds,
    whole: Launcher | None,
    telemetry: Telemetry,
) -> Launcher:
    from ludus.runtime.ray import Cluster, NodeQuestion, RayLauncher

    shared = whole.cluster if isinstance(whole, RayLauncher) else None
    asks = [NodeQuestion(module="ludus.lm.node_models", values=list(needs.hub_models))] if needs.speaks else []
    asks.append(NodeQuestion(module="ludus.explore.node_parts", values=list(needs.parts)))
    cluster = shared or Cluster(
        log_dir / "ray.log",
        address=config.runtime.address,
        asks=asks,
        plan=plan_workers(config),
        tell=telemetry.event,
    )
    policies = run.policies.iterdir() if run.policies.is_dir() else ()
    links = [path for path in policies if path.is_symlink()]
    return RayLauncher(run.path, cluster, outside=needs.outside, links=links, is_part=shared is not None)
