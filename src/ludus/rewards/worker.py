"""The process of custom rewards, and what is said to it: a user's functions, one attempt after the other.

Started by `custom.py`. A reward that raises or returns something else than a
number is told as such; one that hangs is ended from outside, with this process.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import msgspec

from ludus.errors import RewardError, boundary
from ludus.plugins import load_plugins
from ludus.rewards.attempt import Attempt, Mark, check_mark
from ludus.rewards.registry import REWARDS, RewardFunction
from ludus.runtime import Channel, NodeFiles, Pulse, Stop, run_worker


class Prepare(msgspec.Struct, tag="prepare", kw_only=True):
    """First message: where the rewards come from, and which are needed."""

    plugins: list[str]
    names: list[str]


class Prepared(msgspec.Struct, tag="prepared", kw_only=True):
    """The rewards are there."""


class MarkThis(msgspec.Struct, tag="mark_this", kw_only=True):
    """Mark one attempt."""

    number: int
    name: str
    response: str
    inputs: dict[str, Any]
    options: dict[str, Any]
    seed: int
    tokens: int | None


class Marked(msgspec.Struct, tag="marked", kw_only=True):
    """The mark of an attempt, or why there is none."""

    number: int
    value: float = 0.0
    note: str = ""
    problem: str = ""


class Broken(msgspec.Struct, tag="broken", kw_only=True):
    """The process cannot go on, and why; it ends after this."""

    error: str


ToRewards = Prepare | MarkThis | Stop
FromRewards = Prepared | Marked | Broken


SEND_DEADLINE_S = 60.0


def serve(channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
    """Mark attempts until told to stop."""
    while True:
        for message, _ in channel.wait(None):
            if isinstance(message, Stop):
                return
            if isinstance(message, Prepare):
                load_plugins(message.plugins)
                for name in message.names:
                    REWARDS.find(name)
                channel.send(Prepared())
            elif isinstance(message, MarkThis):
                channel.send(_answer(message))
        channel.drain(SEND_DEADLINE_S)


def _answer(message: MarkThis) -> Marked:
    attempt = Attempt(
        response=message.response,
        inputs=message.inputs,
        options=message.options,
        seed=message.seed,
        tokens=message.tokens,
    )
    try:
        mark = call_reward(REWARDS.find(message.name), attempt)
    except RewardError as error:
        return Marked(number=message.number, problem=str(error))
    return Marked(number=message.number, value=mark.value, note=mark.note)


def call_reward(function: RewardFunction, attempt: Attempt) -> Mark:
    """Call a user's reward. Raises RewardError if it raised, or returned something else than a number or a `Mark`."""
    try:
        with boundary(RewardError, "it raised"):
            returned = function(attempt)
            if inspect.isawaitable(returned):
                returned = asyncio.run(_wait_for(returned))
            return check_mark(returned)
    except SystemExit as error:
        raise RewardError(f"it raised: SystemExit: {error.code}") from error


async def _wait_for(awaitable: object) -> object:
    return await awaitable  # type: ignore[misc]


def main() -> None:
    """Entry point of the process."""
    run_worker(ToRewards, serve, lambda error: Broken(error=error))


if __name__ == "__main__":
    main()
