"""The process of custom rewards: a user's functions, one attempt after the other.

Started by `custom.py`. A reward that raises or returns something else than a
number is told as such; one that hangs is ended from outside, with this process.
"""

from __future__ import annotations

import asyncio
import inspect

from ludus.errors import RewardError, boundary
from ludus.plugins import load_plugins
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.messages import Broken, Marked, MarkThis, Prepare, Prepared, ToRewards
from ludus.rewards.registry import REWARDS, RewardFunction
from ludus.rewards.values import check_mark
from ludus.runtime import Channel, Pulse, Stop, run_worker

SEND_DEADLINE_S = 60.0


def serve(channel: Channel[object], pulse: Pulse) -> None:
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
    """Call a user's reward.

    Raises:
        RewardError: it raised, or returned something else than a number or a `Mark`.
    """
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
