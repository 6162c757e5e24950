"""`telemetry`: where metrics go besides the run's own files."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from ludus.config.base import Model


class WandbConfig(Model):
    """Weights & Biases; `wandb: true` takes all defaults. A resumed run continues the same Weights & Biases run."""

    shorthand: ClassVar[str] = "true, false"
    shorthand_type: ClassVar[str] = "boolean"

    project: str = Field(default="ludus", min_length=1, max_length=128)
    """Project that the run belongs to."""
    entity: str | None = Field(default=None, min_length=1, max_length=128)
    """The user or team. Default: that of the account."""
    mode: Literal["online", "offline", "disabled"] | None = None
    """`offline`: files in the run's directory, which `wandb sync` uploads later. `disabled`: as if this key were not
    there. Default: what WANDB_MODE says, else online. Where the server cannot be reached, online becomes offline."""
    tags: tuple[str, ...] = Field(default=(), strict=False, max_length=64)
    """Labels of the run."""
    group: str | None = Field(default=None, min_length=1, max_length=128)
    """Runs of one group are shown together."""


class TelemetryConfig(Model):
    """Where metrics go besides `metrics.jsonl`."""

    tensorboard: bool = True
    """Event files in `tensorboard/`."""
    wandb: WandbConfig | None = None
    """Weights & Biases: true, or a mapping. It needs `pip install 'ludus-rl[wandb]'`. Default: false."""
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
