"""What a run keeps and reports, and what it runs on: `checkpoint`, `record`, `telemetry` and `runtime`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from ludus.config.base import Model
from ludus.config.problems import Contradiction, no_effect

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class CheckpointConfig(Model):
    """When the state of the run is saved, and how many saves are kept."""

    every: int | None = Field(default=None, gt=0)
    """Updates between checkpoints. Default: 50 in the fused topology, `synchronise.interval` in the split one, 25
    (generations) in the tabular one. Whenever a version is published, the state is saved too."""
    keep: int = Field(default=3, ge=2)
    """Checkpoints kept; the one before the newest is the fallback when the newest is damaged."""


class RecordConfig(Model):
    """What is kept of the games for people to look at, and for how long."""

    sample_every: int | None = Field(default=None, gt=0)
    """Fused topology: updates between recorded samples. Default: with each evaluation."""
    sample_games: int = Field(default=4, ge=0)
    """Fused topology: games recorded per sample."""
    keep_mb: int = Field(default=512, gt=0)
    """Disk budget for episode and experience segments that are no longer needed for training."""


class WandbConfig(Model):
    """Weights & Biases; `wandb: true` takes all defaults. A resumed run continues the same Weights & Biases run."""

    shorthand: ClassVar[str] = "true, false"
    shorthand_type: ClassVar[str] = "boolean"

    project: str = Field(default="ludus", min_length=1, max_length=128)
    entity: str | None = Field(default=None, min_length=1, max_length=128)
    """The user or team. Default: that of the account."""
    mode: Literal["online", "offline", "disabled"] | None = None
    """`offline`: files in the run's directory, which `wandb sync` uploads later. `disabled`: as if this key were not
    there. Default: what WANDB_MODE says, else online. Where the server cannot be reached, online becomes offline."""
    tags: tuple[str, ...] = Field(default=(), strict=False, max_length=64)
    group: str | None = Field(default=None, min_length=1, max_length=128)
    """Runs of one group are shown together."""


class TelemetryConfig(Model):
    """Where metrics go besides `metrics.jsonl`."""

    tensorboard: bool = True
    """Event files in `tensorboard/`."""
    wandb: WandbConfig | None = None
    """Weights & Biases: true, or a mapping. It needs `pip install 'ludus[wandb]'`. Default: false."""
    every_s: float = Field(default=1.0, ge=0)
    """Seconds between metric lines, at least."""

    @property
    def weights_and_biases(self) -> WandbConfig | None:
        """How to use it; None when it is not used."""
        return None if self.wandb is None or self.wandb.mode == "disabled" else self.wandb

    @field_validator("wandb", mode="before")
    @classmethod
    def _from_boolean(cls, value: Any) -> Any:
        return {True: {}, False: None}[value] if isinstance(value, bool) else value


class RuntimeConfig(Model):
    """Processes and threads on this machine."""

    kind: Literal["local"] = "local"
    threads: int | None = Field(default=None, gt=0)
    """Compute threads of the process that trains. Default: 1 in the split topology; in the fused one what the other
    processes leave of the cores, at most 4. With several shards: one for each (`train.shards`)."""
    max_restarts: int = Field(default=5, ge=0)
    """Restarts of a worker within ten minutes before the run fails."""
    stall_s: float = Field(default=600.0, gt=0)
    """Seconds that a trainer may take for one update before it counts as hung; an explorer's limit is
    `explore.deadline_s`."""


def check_record(config: RunConfig) -> Iterator[Contradiction]:
    """Samples are for the topology that does not record every episode."""
    if config.topology != "fused":
        yield from no_effect(
            config.record, "record", "sample_every sample_games", "topology: split records every episode"
        )
