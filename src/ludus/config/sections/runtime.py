"""`runtime`: processes and threads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ludus.config.base import Model


class RuntimeConfig(Model):
    """Processes and threads on this machine."""

    kind: Literal["local"] = "local"
    """Where workers run: processes of this machine."""
    threads: int | None = Field(default=None, gt=0)
    """Compute threads of the process that trains. Default: 1 in the split topology; in the fused one what the other
    processes leave of the cores, at most 4. With several shards: one for each (`train.shards`)."""
    max_restarts: int = Field(default=5, ge=0)
    """Restarts of a worker within ten minutes before the run fails."""
    stall_s: float = Field(default=600.0, gt=0)
    """Seconds that a trainer may take for one update before it counts as hung; an explorer's limit is
    `explore.deadline_s`."""
