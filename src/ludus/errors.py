"""Every error that ludus raises on purpose.

    LudusError
    ├── ConfigError                 bad input from a file or the command line (exit code 2)
    ├── StorageError                what is on disk cannot be used
    │   ├── CorruptRecord           bytes do not match their hash or their schema
    │   ├── IncompleteCheckpoint    no usable checkpoint, or one without its manifest
    │   ├── DiskFull                a write found no space; what was there before is intact
    │   └── RunLocked               another live process holds the run directory
    ├── RolloutError                an episode failed; it costs that episode only
    │   ├── EnvError                a game raised or broke its protocol
    │   ├── PolicyError             a policy gave no usable action
    │   │   ├── Unreachable         its engine cannot be reached; the episode is played again when it can
    │   │   └── DamagedPolicy       its files are gone or do not match their hash; the loop repairs them if it can
    │   ├── RewardError             a reward was missing, of the wrong type or not finite
    │   ├── SandboxError            the sandbox itself failed, not the program in it
    │   └── TimeoutExceeded         a deadline passed
    ├── EngineLost                  an engine was out of reach for longer than allowed
    │   └── WrongWeights            an engine has other weights than it was given
    ├── TrainError                  an update cannot be done (too many skipped steps, ...)
    ├── WorkerError                 a worker process died or hung more often than allowed
    └── ProtocolError               a message between processes was malformed

A failed episode is a record with `error`, not a crash; a failed invariant is a crash, not a record.
"""

from __future__ import annotations

from types import TracebackType

from ludus.plugin_frames import in_words, log_once


class LudusError(Exception):
    """Base of all errors that ludus raises on purpose."""


class ConfigError(LudusError):
    """Bad input. `problems` holds one line per mistake, all of them at once."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class StorageError(LudusError):
    """What is on disk cannot be used."""


class CorruptRecord(StorageError):
    """Bytes on disk do not match their hash or their schema."""


class IncompleteCheckpoint(StorageError):
    """No usable checkpoint, or one without its manifest."""


class DiskFull(StorageError):
    """A write found no space. What was on disk before is intact."""


class RunLocked(StorageError):
    """Another live process holds the run directory."""


class RolloutError(LudusError):
    """An episode failed. It costs that episode only."""


class EnvError(RolloutError):
    """A game raised or broke its protocol."""


class PolicyError(RolloutError):
    """A policy gave no usable action."""


class Unreachable(PolicyError):
    """The engine that speaks for a policy cannot be reached. Not the episode's fault: it is played again later."""


class DamagedPolicy(PolicyError):
    """The files of a version are gone or do not match their hash. The episode is played again if they are repaired."""


class RewardError(RolloutError):
    """A reward was missing, of the wrong type or not finite."""


class SandboxError(RolloutError):
    """The sandbox itself failed, not the program in it."""


class TimeoutExceeded(RolloutError):
    """A deadline passed."""


class EngineLost(LudusError):
    """An engine was out of reach for longer than allowed. Episodes that it interrupted are still to be played."""


class WrongWeights(EngineLost):
    """An engine has other weights than it was given, or cannot take them: what it writes is nobody's experience."""


class TrainError(LudusError):
    """An update cannot be done."""


class WorkerError(LudusError):
    """A worker process died or hung more often than allowed."""


class ProtocolError(LudusError):
    """A message between processes was malformed."""


def describe(error: BaseException) -> str:
    """An error for logs and statuses: its type, what it says and, for one that is not ludus's own, where it is from."""
    return f"{type(error).__name__}: {error}" if isinstance(error, LudusError) else in_words(error)


class boundary:
    """Turn whatever escapes plug-in code into one typed error that names the thing it concerns."""

    __slots__ = ("_kind", "_what")

    def __init__(self, kind: type[RolloutError], what: str) -> None:
        self._kind = kind
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, RolloutError):
            raise rollout_error(self._kind, self._what, error) from error


def rollout_error(kind: type[RolloutError], what: str, error: Exception) -> RolloutError:
    """What escaped plug-in code, as a typed error that names the thing it concerns. For hot loops; else `boundary`.

    The error has the place in the plugin where it was raised; the log has the whole traceback.
    """
    if isinstance(error, RolloutError):
        return error
    log_once(error)
    return kind(f"{what}: {in_words(error)}")
