"""The version that a round made, as a folder that other programs read (`cycle.export`)."""

from __future__ import annotations

from ludus.orchestrator import RunContext
from ludus.policies import PolicyStore
from ludus.policies.export import ExportFolder
from ludus.records import PolicyRef, PolicyVersion
from ludus.runs.controls import Controls
from ludus.runs.cycle import Cycle


def export_round(context: RunContext, policies: PolicyStore, rounds: Cycle, controls: Controls) -> None:
    """Export the version of the last round; doing it again changes nothing."""
    cycle, version = context.config.cycle, rounds.version
    if cycle is None or cycle.export is None or version is None:
        return
    ref = PolicyRef(name=context.policy, version=PolicyVersion(version))
    if not policies.has(ref):
        return
    controls.enter("exporting")
    folder = ExportFolder(context.run.path / cycle.export, cycle.keep_exports)
    with context.telemetry.room("policies"):
        if folder.add(policies, ref):
            context.telemetry.event("exported", policy=str(ref), path=str(folder.target(ref)))
    controls.enter("training")
