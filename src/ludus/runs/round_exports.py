"""What leaves a run when a round is done: a copy of its version, and files for other programs."""

from __future__ import annotations

from ludus.orchestrator import RunContext
from ludus.policies import PolicyStore
from ludus.policies.export import ExportFolder
from ludus.policies.releases import Releases
from ludus.records import PolicyRef, PolicyVersion
from ludus.runs.cycle import Cycle
from ludus.runs.driver import Controls

LAST_UPLOADS_S = 20.0
"""How long the end of a run waits for uploads that are under way."""


class RoundExports:
    """Exports and releases the version of each round; doing it again changes nothing."""

    def __init__(self, context: RunContext, policies: PolicyStore, cycle: Cycle, controls: Controls) -> None:
        self._context, self._policies, self.cycle, self._controls = context, policies, cycle, controls
        self._releases = _releases(context, policies)

    def add(self, step: int) -> None:
        """Export the version of the last round, after so many updates."""
        if self._releases is not None:
            self._releases.start()
        config, version = self._context.config.cycle, self.cycle.version
        if config is None or version is None:
            return
        ref = PolicyRef(name=self._context.policy, version=PolicyVersion(version))
        if not self._policies.has(ref) or (config.export is None and self._releases is None):
            return
        self._controls.enter("exporting")
        with self._context.telemetry.room("policies"):
            if config.export is not None:
                self._copy(ExportFolder(self._context.run.path / config.export, config.keep_exports), ref)
            if self._releases is not None:
                self._releases.add(ref, step=step)
        self._controls.enter("training")

    def _copy(self, folder: ExportFolder, ref: PolicyRef) -> None:
        if folder.add(self._policies, ref):
            self._context.telemetry.event("exported", policy=str(ref), path=str(folder.target(ref)))

    def close(self) -> None:
        """Wait a little for uploads; what is left goes on with the next start, and people are told."""
        if self._releases is None:
            return
        self._releases.close(LAST_UPLOADS_S if self._releases.pending() else 0.0)
        if pending := self._releases.pending():
            self._context.telemetry.event("releases_pending", releases=pending)


def _releases(context: RunContext, policies: PolicyStore) -> Releases | None:
    cycle = context.config.cycle
    if cycle is None or cycle.release is None:
        return None
    from ludus.chess.release_files import release_writers

    writers = release_writers(policies, context.config)
    return Releases(
        context.run.path, cycle.release, name=context.config.name, writers=writers, tell=context.telemetry.event
    )
