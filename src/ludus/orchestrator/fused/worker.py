"""A fused learner as a worker of its own, on some node: plays and trains as it is told, update by update.

It keeps nothing but what follows from a checkpoint and the orders since: a lost one is replaced by one that does them
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from ludus.config import RunConfig
from ludus.games.registry import make_game
from ludus.orchestrator.fused.engine import DevicePart, FusedEngine, Tensors
from ludus.orchestrator.fused.messages import (
    FusedBroken,
    FusedSetup,
    Numbers,
    PlayAndTrain,
    SaveState,
    StateSaved,
    ToFused,
    Updated,
)
from ludus.plugins import load_plugins
from ludus.policies import PolicyShape, PolicyStore
from ludus.policies.shapes import shape_from_json
from ludus.records import PolicyRef
from ludus.runtime import Channel, NodeFiles, Pulse, Stop, run_worker
from ludus.storage.run_directory import RunDirectory
from ludus.storage.tensors import load_tensors


class _StateOnNode(NamedTuple):
    """A checkpoint whose files have been brought here."""

    folder: Path
    state: Mapping[str, Any]

    def tensors(self, name: str) -> Tensors:
        """A part of it."""
        return load_tensors(self.folder / f"{name}.safetensors")


class FusedWorker:
    """An engine, driven by messages."""

    def __init__(self, setup: FusedSetup, files: NodeFiles) -> None:
        load_plugins([str(files.outside(path)) for path in setup.plugins])
        config, run = RunConfig.model_validate_json(setup.config), RunDirectory(files.run)
        part = DevicePart(tuple(setup.blocks), setup.learner_seat, setup.is_population)
        shape = cast("PolicyShape", shape_from_json(setup.shape))

        def begin_with() -> Tensors:
            store = PolicyStore(files.outside(setup.start), files)
            return store.load(PolicyRef.parse(setup.start_policy)).weights

        self._files, self._folder = files, run.checkpoints
        self._engine = FusedEngine(
            config,
            make_game(config.games[0].key),
            shape,
            part,
            PolicyStore(run.policies, files),
            begin_with if setup.start else None,
        )
        if setup.checkpoint:
            folder = self._folder / setup.checkpoint
            files.fetch(folder)
            self._engine.begin(_StateOnNode(folder, {"key": setup.key}))
        else:
            self._engine.begin(None)

    def update(self, order: PlayAndTrain) -> Updated:
        """One update."""
        self._engine.play_against([PolicyRef.parse(name) for name in order.opponents])
        metrics, tally = self._engine.update(order.restart, order.progress)
        return Updated(
            number=order.number,
            metrics={name: float(value) for name, value in metrics.items()},
            tally={name: Numbers.of(np.asarray(value)) for name, value in tally._asdict().items()},
        )

    def save(self, order: SaveState) -> StateSaved:
        """Write the state; it is on the loop's disk when this returns."""
        with self._files.writing(self._folder / order.staging) as staging:
            key = self._engine.write(staging)
        return StateSaved(staging=order.staging, key=key)


def serve(channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
    """Carry out orders until told to stop."""
    worker: FusedWorker | None = None
    while True:
        pulse.set_busy(False)
        for message, _ in channel.wait(None):
            pulse.set_busy(True)
            pulse.tick()
            if isinstance(message, Stop):
                return
            if isinstance(message, FusedSetup):
                worker = FusedWorker(message, files)
            elif isinstance(message, PlayAndTrain) and worker is not None:
                channel.send(worker.update(message))
            elif isinstance(message, SaveState) and worker is not None:
                channel.send(worker.save(message))


def main() -> None:
    """Entry point of the process."""
    run_worker(ToFused, serve, lambda error: FusedBroken(error=error))


if __name__ == "__main__":
    main()
