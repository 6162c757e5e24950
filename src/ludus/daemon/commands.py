"""What each command does to the run. Everything here is called by the service's own threads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ludus.daemon.messages import (
    Export,
    MakeCheckpoint,
    Pause,
    Payload,
    Resume,
    Set,
    StartTraining,
    StartTrainingImmediately,
    Stop,
)
from ludus.errors import LudusError
from ludus.policies import PolicyStore
from ludus.policies.choosing import choose_policy
from ludus.policies.export import export_policy
from ludus.storage.checkpoints import CheckpointStore

if TYPE_CHECKING:
    from ludus.daemon.service import Service
    from ludus.runs.staged import AnyRun

COMMANDS_AT_ONCE = 10_000
"""Commands that may wait for their turn."""
CHECKPOINT_S = 300.0

Result = dict[str, Any]


class Refused(LudusError):
    """A command that cannot be carried out now."""

    def __init__(self, code: Literal["wrong_state", "bad_payload"], message: str) -> None:
        super().__init__(message)
        self.code = code


def is_long(payload: Payload) -> bool:
    """Whether others should not wait for it."""
    return isinstance(payload, MakeCheckpoint | Export | Stop)


def carry_out(service: Service, payload: Payload) -> Result:
    """Do what takes no time, or must be done before what comes after it."""
    if isinstance(payload, StartTraining):
        return _start(service, payload)
    loop = _live(service)
    if isinstance(payload, Pause):
        loop.pause()
    elif isinstance(payload, Resume):
        loop.resume()
    elif isinstance(payload, StartTrainingImmediately):
        loop.train_now()
    elif isinstance(payload, Set):
        loop.set_keys(payload.values)
        return {"values": dict(payload.values)}
    return {}


def conclude(service: Service, payload: Payload) -> Result:
    """Do what takes long; the result tells what came of it."""
    if isinstance(payload, MakeCheckpoint):
        return _checkpoint(_live(service))
    if isinstance(payload, Export):
        return _export(service, payload)
    return _stop(service)


def _start(service: Service, payload: StartTraining) -> Result:
    if payload.config is None and payload.config_filepath is None:
        raise Refused("bad_payload", "payload.config: the path of a config is missing")
    loop = service.open(payload)
    return {"run": loop.status().run, "run_dir": loop.status().run_dir}


def _live(service: Service) -> AnyRun:
    """The run, if it is going on."""
    loop = service.loop
    if loop is None:
        raise Refused("wrong_state", "there is no run yet; begin with start_training")
    if loop.status().is_over:
        raise Refused("wrong_state", f"the run is {loop.status().stage}; begin again with start_training")
    return loop


def _checkpoint(loop: AnyRun) -> Result:
    status = loop.checkpoint(CHECKPOINT_S)
    saved = CheckpointStore(loop.run.checkpoints, loop.config.checkpoint.keep).list()
    newest = loop.run.checkpoints / f"{saved[-1]:08d}" if saved else loop.run.checkpoints
    return {"update": saved[-1] if saved else status.update, "steps": status.steps, "path": str(newest)}


def _export(service: Service, payload: Export) -> Result:
    if service.loop is None:
        raise Refused("wrong_state", "there is no run yet; begin with start_training")
    run, config = service.loop.run, service.loop.config
    service.is_exporting = True
    try:
        ref = choose_policy(run, config, payload.policy)
        target = Path(payload.out) if payload.out else run.path / "export" / f"{ref.name}-{ref.version:08d}"
        policy = export_policy(PolicyStore(run.policies), ref, target, replace=payload.force)
    finally:
        service.is_exporting = False
    return {"policy": str(ref), "path": str(target), "weights_hash": policy.weights_hash, "step": policy.step}


def _stop(service: Service) -> Result:
    from ludus.daemon.service import end_of

    if service.loop is None:
        raise Refused("wrong_state", "there is no run to stop")
    service.loop.stop()
    end_of(service.loop)
    status = service.status()
    return {"stage": status.stage, "update": status.update, "steps": status.steps, "run_dir": status.run_dir}
