"""What a client may say to the daemon, and how it is answered.

To add a command: a `CommandPayload` here, and a method in `commands.py` that carries it out.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from ludus.config import Model


class Payload(Model):
    """What a message carries."""

    type: ClassVar[str]


class CommandPayload(Payload):
    """What a client may say."""


class StartTraining(CommandPayload):
    """Start a run, or resume the one in its directory. The ack comes when the config has been accepted."""

    type: ClassVar[str] = "start_training"
    config: str | None = Field(default=None, min_length=1, max_length=4096)
    """Path of the YAML file."""
    config_filepath: str | None = Field(default=None, min_length=1, max_length=4096)
    """The same, as the Leela daemon calls it. One of the two must be given."""
    overrides: tuple[str, ...] = Field(default=(), strict=False, max_length=1000)
    """`key.path=value`, as on the command line."""
    run_dir: str | None = Field(default=None, min_length=1, max_length=4096)
    """Where the run lives. Default: runs/<name>."""
    from_scratch: bool = False
    """Begin anew: a run that is there moves to earlier/ below it."""


class StartTrainingImmediately(CommandPayload):
    """Do not wait for more new data: train now, on what is there."""

    type: ClassVar[str] = "start_training_immediately"


class Pause(CommandPayload):
    """Stop after the current update, keeping everything in memory. The ack comes at once."""

    type: ClassVar[str] = "pause"


class Resume(CommandPayload):
    """Go on after a pause."""

    type: ClassVar[str] = "resume"


class Stop(CommandPayload):
    """Save the state and end the run; the daemon stays. The ack comes when the run has ended."""

    type: ClassVar[str] = "stop"


class MakeCheckpoint(CommandPayload):
    """Save the state after the current update. The ack comes when it is on disk, and tells where."""

    type: ClassVar[str] = "checkpoint"


class Export(CommandPayload):
    """Write a policy as files that can be used elsewhere. The ack comes when they are there, and tells where."""

    type: ClassVar[str] = "export"
    policy: str | None = Field(default=None, min_length=1, max_length=256, examples=["main@12"])
    """Which version. Default: the newest."""
    out: str | None = Field(default=None, min_length=1, max_length=4096)
    """Folder to write. Default: export/<policy>-<version> in the run's directory."""
    force: bool = False
    """Replace the folder if it exists."""


class AskStatus(CommandPayload):
    """The ack carries the payload of a `status` notification."""

    type: ClassVar[str] = "status"


class Set(CommandPayload):
    """Change keys of the run while it is running; the ack tells what they are now. See the list of keys below."""

    type: ClassVar[str] = "set"
    values: dict[str, Any] = Field(min_length=1, max_length=100, examples=[{"train.steps": 2000000}])
    """Values by key path."""


class Subscribe(CommandPayload):
    """Choose which notifications this client gets from now on. Before that it gets all of them."""

    type: ClassVar[str] = "subscribe"
    types: tuple[str, ...] | None = Field(default=None, strict=False, max_length=100, examples=[["status", "error"]])
    """Types of notifications; an empty list means none. Default: all."""
    interval_s: float = Field(default=0.9, ge=0.1, le=1.0)
    """Seconds between two `status` notifications."""


class Shutdown(CommandPayload):
    """Stop the run in order and end the daemon. The ack comes at once; the daemon's end is the end of its output."""

    type: ClassVar[str] = "shutdown"


ErrorCode = Literal[
    "bad_json",
    "bad_message",
    "unknown_type",
    "bad_payload",
    "too_long",
    "bad_config",
    "wrong_state",
    "failed",
    "run_failed",
]


class Ack(Payload):
    """A command was carried out (or, for start_training, pause, resume and shutdown, accepted)."""

    type: ClassVar[str] = "ack"
    command: str
    """Type of the command."""
    result: dict[str, Any] = Field(default={})
    """What came of it."""
