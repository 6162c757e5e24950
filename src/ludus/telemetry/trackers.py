"""The sinks that a config asks for: is what they need there, and attach them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from ludus.config import RunConfig
from ludus.errors import ConfigError
from ludus.storage.run_directory import RunDirectory
from ludus.telemetry.sink import Sink
from ludus.telemetry.telemetry import Telemetry
from ludus.telemetry.tensorboard import TensorBoardSink
from ludus.telemetry.wandb_sink import WandbSink


def check_trackers(config: RunConfig) -> None:
    """See to it that every package that a sink needs is installed.

    Raises:
        ConfigError: one is not.
    """
    if config.telemetry.weights_and_biases is not None and find_spec("wandb") is None:
        raise ConfigError(
            "telemetry.wandb: the package wandb is not installed; install it with: pip install 'ludus[wandb]'"
        )


def attach_trackers(telemetry: Telemetry, config: RunConfig, run: RunDirectory, also: Iterable[Sink] = ()) -> None:
    """Attach the sinks that a config asks for, and others. None of them is started here: their threads do that."""
    for sink in also:
        telemetry.attach(sink)
    if config.telemetry.tensorboard:
        telemetry.attach(TensorBoardSink(run.tensorboard))
    if (wandb := config.telemetry.weights_and_biases) is not None:
        # Several runs of one config (stages, seeds) are told apart by their directories.
        name = config.name if run.path.name == config.name else f"{config.name} {run.path.name}"
        telemetry.attach(WandbSink(run, wandb, run_name=name, values=config.model_dump(mode="json")))
