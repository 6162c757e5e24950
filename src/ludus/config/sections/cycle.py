"""`cycle`: rounds of training that each wait for new data. `ludus.runs.cycle` counts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from ludus.config.base import Model
from ludus.config.problems import Contradiction, at, no_effect
from ludus.config.sections.games import seats_per_game

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class ReleaseFileConfig(Model):
    """One file that is made of each version."""

    format: Literal["lc0", "onnx"] = "lc0"
    """`lc0`: a chess network as the engine lc0 loads it. `onnx`: an ONNX model with all heads, whose input and main
    outputs are named as lc0 names them; needs the extra `onnx`."""
    path: str = Field(min_length=1, max_length=4096, examples=["networks/{name}-{step}.pb.gz"])
    """May have {name} (the run's), {policy}, {version}, {step} (updates done) and {datetime} (UTC). One that is not
    absolute is under the run's directory."""

    @field_validator("path")
    @classmethod
    def _known_fields(cls, path: str) -> str:
        try:
            path.format(**dict.fromkeys(("name", "policy", "version", "step", "datetime"), "x"))
        except (KeyError, IndexError, ValueError, AttributeError):
            raise ValueError("only {name}, {policy}, {version}, {step} and {datetime} may stand in braces") from None
        return path


class UploadConfig(Model):
    """A server that gets the files of each version, as a multipart POST."""

    url: str = Field(min_length=1, max_length=4096, pattern=r"^https?://", examples=["https://example.org/upload"])
    """https; http only on this machine."""
    token_env: str | None = Field(default="LUDUS_UPLOAD_TOKEN", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Environment variable with the token, sent as `Authorization: Bearer`. null: none is sent."""
    fields: dict[str, str] = Field(default={})
    """Other fields of the form."""
    timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """Seconds that the server may be silent."""
    attempts: int = Field(default=20, gt=0, le=10**6)
    """Tries for each version; pauses between them double, up to an hour. The count goes on after a restart."""
    pause_s: float = Field(default=2.0, gt=0, le=3600)
    """Seconds before the second try."""


class ReleaseConfig(Model):
    """What leaves the run with each round besides `export`: files, an upload of them, a command."""

    files: tuple[ReleaseFileConfig, ...] = Field(strict=False, min_length=1)
    """Written under a temporary name and renamed."""
    upload: UploadConfig | None = None
    """Goes on beside training. What is not up at the end of the run is uploaded when it is started again."""
    command: tuple[str, ...] = Field(default=(), strict=False, examples=[["./notify.sh", "{files}"]])
    """Run in the run's directory once the files are there; the word {files} becomes their paths. Not a shell."""
    command_s: float = Field(default=60.0, gt=0, le=86400)
    """Seconds after which the command is killed."""


class CycleConfig(Model):
    """Wait for new data, train, publish, export, and so on: each time around is a round.

    What has come in beyond what was waited for is carried over: the next round waits for that much less, but for half
    of `new_sequences` at least.
    """

    new_sequences: int = Field(gt=0, le=10**9, examples=[2000])
    """New sequences to wait for before each round. With `buffer.loader`: as it counts them (chess: chunks)."""
    updates: int = Field(gt=0, le=10**6, examples=[100])
    """Updates of each round. A version is published after each round."""
    growth: float = Field(default=1.0, ge=1, le=10, examples=[2.0])
    """Updates of a round, as a multiple of those of the round before; only with `buffer.loader`. With 2, each version
    has been trained about twice as long as the one before: learning slows down, and versions stay apart."""
    export: str | None = Field(default="exports", min_length=1, max_length=4096)
    """Folder that gets `<policy>-<version>/` after each round; one that is not absolute is under the run's directory.
    null: nothing is exported."""
    keep_exports: int = Field(default=10, gt=0, le=10**6)
    """Exports kept; the oldest go."""
    release: ReleaseConfig | None = None
    """Networks for other programs, and where they go."""


def check_cycle(config: RunConfig) -> Iterator[Contradiction]:
    """Everything about waiting for data that cannot hold together."""
    if config.cycle is not None:
        yield from _mode(config)
        if config.cycle.release is not None and not config.policy.network.kind.startswith("chess_"):
            text = f"writes networks for chess engines, and policy.network.kind is {config.policy.network.kind}"
            yield at("cycle.release", f"{text}; write chess_residual or chess_attention, or leave it out")
        if config.cycle.growth != 1 and config.buffer.loader is None:
            text = "rounds over sequences all have as many updates, since the buffer is made for those; only those over"
            yield at("cycle.growth", f"{text} a loader (buffer.loader) can grow; leave it out")
        if config.topology == "split":
            yield from _amounts(config, config.cycle)


def _mode(config: RunConfig) -> Iterator[Contradiction]:
    if config.population is not None:
        yield at("cycle", "is for one policy that learns, and there is a population; leave out one of them")
    elif config.mode in ("explore", "evaluate"):
        yield at("cycle", f"is for runs that train, and mode is {config.mode}; leave it out")
    elif config.mode == "train" and not config.buffer.feeds and config.buffer.loader is None:
        yield at(
            "cycle", "waits for new data, and none can come with mode: train alone; write buffer.feeds or buffer.loader"
        )
    elif config.mode == "both" and config.schedule == "sync" and config.topology == "split":
        text = "schedule: sync trains on each batch when it has been played, and waits for nothing else"
        yield at("cycle", f"{text}; write schedule: async, or mode: train with buffer.feeds")


def _amounts(config: RunConfig, cycle: CycleConfig) -> Iterator[Contradiction]:
    buffer, episodes, seats = config.buffer, config.train.batch_episodes or 1, seats_per_game(config)
    why = "with cycle, a version is published after each round (cycle.updates); leave it out"
    yield from no_effect(config.synchronise, "synchronise", "interval", why)
    if buffer.loader is not None:
        return  # it keeps what it has admitted, and uses it as often as it likes
    if cycle.new_sequences > (buffer.capacity or 0):
        text = (
            f"{cycle.new_sequences:,} are more than buffer.capacity ({buffer.capacity:,}), so that the oldest would go"
        )
        yield at("cycle.new_sequences", f"{text} before they are used; write at most that, or a larger capacity")
    mirrors = any(choice.kind == "mirror" for choice in config.league.opponents)
    batch, uses = episodes * (seats if mirrors else 1), buffer.samples_per_insert or float(buffer.reuse)
    if cycle.updates * batch > cycle.new_sequences * uses:
        needed = f"{cycle.updates:,} updates need {cycle.updates * batch:,} sequences (batches of {batch:,})"
        given = f"but each round gets {cycle.new_sequences:,} new ones, used {uses:g} times"
        at_most = int(cycle.new_sequences * uses // batch)
        instead = f"write cycle.updates: {at_most}" if at_most else f"write cycle.new_sequences: {batch}"
        yield at("cycle.updates", f"{needed}, {given}; {instead}, or a higher buffer.reuse")
