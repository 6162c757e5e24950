"""What every kind of reward is to the sum of them."""

from __future__ import annotations

from typing import Protocol

from ludus.rewards.attempt import Attempt, Mark


class Reward(Protocol):
    """Marks attempts, any number at the same time, in one event loop."""

    async def mark(self, attempt: Attempt) -> Mark:
        """What an attempt is worth. A wrong response is worth little; it is no error.

        Raises:
            RolloutError: the reward could not be found. It costs the episode.
        """
        ...

    async def close(self) -> None:
        """Give everything back. Called once, at the end; marks that are under way fail."""
        ...


class Instant:
    """Base of rewards that have nothing to give back."""

    async def close(self) -> None:
        """There is nothing."""
