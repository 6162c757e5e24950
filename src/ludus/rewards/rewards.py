"""All rewards of a run: each marks the attempt, and the weighted sum is what is learnt from.

Invariant: there is a total only if every part is a finite number; otherwise there is an error that names the part, and
the episode is lost. Parts are told as their rewards gave them, before weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from ludus.errors import RewardError, RolloutError, rollout_error
from ludus.records import Task, derive_seed
from ludus.rewards.attempt import Attempt, Mark, Reward, check_mark, check_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What an attempt is worth."""

    total: float
    parts: dict[str, float]
    """What each reward gave, by its label, before its weight."""
    notes: dict[str, str]
    """What each reward said about it, where it said something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One reward of the sum."""

    label: str
    weight: float
    reward: Reward


class Rewards:
    """Scores attempts, any number at the same time. Belongs to one event loop."""

    def __init__(self, parts: Sequence[Part], *, close: Callable[[], None] | None = None) -> None:
        """`close` gives back what the parts share."""
        self._parts = tuple(parts)
        self._close = close
        self._counts: defaultdict[str, float] = defaultdict(float)

    async def score(self, task: Task, response: str, *, seed: int, tokens: int | None = None) -> Scored:
        """What a response to a task is worth.

        Args:
            tokens: how many were sampled for it, where the caller knows.

        Raises:
            RolloutError: a part has no value; the message says which, and why.
        """
        response = response.encode("utf-8", "replace").decode()  # half characters cannot be handed to other processes
        parts: dict[str, float] = {}
        notes: dict[str, str] = {}
        for part in self._parts:
            own_seed = derive_seed(seed, "reward", part.label)
            attempt = Attempt(response=response, inputs=task.inputs, seed=own_seed, tokens=tokens)
            mark = await self._mark(part, attempt, is_counted=task.purpose == "train")
            parts[part.label] = mark.value
            if mark.note:
                notes[part.label] = mark.note
        total = fsum(part.weight * parts[part.label] for part in self._parts)
        return Scored(total=check_value(total), parts=parts, notes=notes)

    def take_counts(self) -> dict[str, float]:
        """What has been done for training since the last call: `rewards/<label>/scored`, `.../failed` and `.../sum`."""
        counts, self._counts = self._counts, defaultdict(float)
        return {f"rewards/{name}": value for name, value in sorted(counts.items())}

    async def close(self) -> None:
        """Give everything back. What is being scored fails."""
        for part in self._parts:
            await part.reward.close()
        if self._close is not None:
            self._close()

    async def _mark(self, part: Part, attempt: Attempt, *, is_counted: bool) -> Mark:
        try:
            mark = check_mark(await part.reward.mark(attempt))
        except Exception as error:
            self._counts[f"{part.label}/failed"] += is_counted
            raise _named(part.label, error) from error
        if is_counted:
            self._counts[f"{part.label}/scored"] += 1
            self._counts[f"{part.label}/sum"] += mark.value
        return mark


def _named(label: str, error: Exception) -> RolloutError:
    """The error with the reward's name before it, of the same type."""
    typed = rollout_error(RewardError, "it raised", error)
    typed.args = (f"reward {label}: {typed}",)
    return typed
