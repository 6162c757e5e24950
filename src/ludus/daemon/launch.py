"""From the words of a person or a client to a run that is ready to start, and that others can watch and drive."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ludus.config import RunConfig, compute_threads, load_or_demo, resolve_stages
from ludus.daemon.service import LogToClients, Service
from ludus.daemon.sockets import ControlSocket
from ludus.orchestrator.workers import worker_imports
from ludus.plugins import load_plugins
from ludus.runs.staged import AnyRun, make_run
from ludus.runtime import available_cores, limit_threads, warm_up


def open_loop(
    config: Path | RunConfig | None,
    overrides: Sequence[str] = (),
    *,
    run_dir: Path | None = None,
    plugins: Sequence[str] = (),
    strict_resume: bool = False,
    from_scratch: bool = False,
) -> AnyRun:
    """The run of a config or its file (None: the demo), with as many compute threads as it should have.

    Raises:
        ConfigError: anything is wrong with the config; nothing has been written yet.
    """
    load_plugins(plugins)
    loaded = config if isinstance(config, RunConfig) else load_or_demo(config, overrides)
    stages = resolve_stages(loaded)
    limit_threads(
        max(compute_threads(stage, available_cores()) for stage in stages),
        os.environ,
        devices=max(int(os.environ.get("JAX_NUM_CPU_DEVICES") or 1), *(stage.train.shards for stage in stages)),
    )
    if stages[0].topology == "split":
        warm_up(worker_imports(stages[0]))  # beside what this process imports
    return make_run(loaded, run_dir, plugins=plugins, strict_resume=strict_resume, from_scratch=from_scratch)


@contextmanager
def hosted(loop: AnyRun) -> Iterator[Service]:
    """While the block lasts, clients reach the run through its control socket."""
    service = Service(loop=loop)
    handler = LogToClients(service)
    logging.getLogger().addHandler(handler)
    service.start()
    door = ControlSocket(service)
    try:
        yield service
    finally:
        door.close()
        service.let_go()
        logging.getLogger().removeHandler(handler)
