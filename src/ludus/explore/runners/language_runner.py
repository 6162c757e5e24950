"""Keeps many episodes of a language model in flight: games of words and attempts at tasks, over one engine.

A coroutine each, in one event loop. The same face as the host runner: `submit`, then `step` until `is_idle`, and
`harvest` in between. What an episode comes to does not depend on its neighbours as long as the engine is repeatable:
every reply has its own seed. How a task is played is its game's or taskset's business: see `Rollouts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ludus.explore.players.endpoints import Counts, Endpoints
from ludus.explore.runners.assembly import assemble_traces
from ludus.explore.runners.conversation_rows import Row, gather_rows
from ludus.explore.runners.in_flight import InFlight
from ludus.explore.runners.slot import SeatTrace
from ludus.explore.runners.workflow_episode import WorkflowEpisode
from ludus.inference.policy_sampler import PolicySampler
from ludus.records import Episode, EpisodeBatch, Experiences, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """One episode that is over, with what can be learnt from it."""

    episode: Episode
    rows: Sequence[Row] = ()
    """What learning seats said."""
    traces: Mapping[int, SeatTrace] = field(default_factory=dict)
    """By seat, what learning networks saw and did."""
    attempt: WorkflowEpisode | None = None
    """Everything that is known of an attempt at a task."""


class Rollouts(Protocol):
    """Plays the tasks of one game or taskset, with its own prompt, sampling, workflow and rewards."""

    has_turns: bool
    """Whether its sequences say which turn or chat they are."""

    async def play(self, task: Task) -> Finished:
        """One episode. A failure costs that episode only; raises `Interrupted` when it is to begin again."""
        ...

    def take_counts(self) -> Counts:
        """What has been done since the last call, by name of the metric."""
        ...

    async def close(self) -> None:
        """Give everything back but the engine and the endpoints."""
        ...


class LanguageRunner:
    """Keeps up to `slots` episodes in flight."""

    def __init__(
        self,
        rollouts: Mapping[str, Rollouts],
        *,
        sampler: PolicySampler,
        slots: int,
        default: Rollouts | None = None,
        endpoints: Endpoints | None = None,
    ) -> None:
        """
        Args:
            rollouts: by what a task has as its game.
            sampler: its engine is closed with the runner, and so are rollouts and endpoints.
            default: plays whatever has no rollouts of its own.
        """
        self._rollouts = dict(rollouts)
        self._default = default
        self._sampler = sampler
        self._endpoints = endpoints
        self.slots = slots
        self._flight: InFlight[Finished] = InFlight(self._play, slots=slots, outage=sampler.outage, pulse=sampler.pulse)

    @property
    def trouble(self) -> str:
        """Why the engine cannot be reached now; empty while it can."""
        return self._sampler.outage.reason

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to play."""
        return self._flight.is_idle

    @property
    def finished_episodes(self) -> int:
        """Episodes that the next harvest would return."""
        return self._flight.finished

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks; each starts as soon as a slot is free."""
        self._flight.submit(tasks)

    def step(self) -> None:
        """Play on until an episode ends, or for a moment.

        Raises:
            EngineLost: the engine has been out of reach for too long.
        """
        self._flight.step()

    def take_finished(self) -> list[Finished]:
        """What has finished since the last call, with all that is known of it; failed episodes, too."""
        return self._flight.take()

    def harvest(self) -> EpisodeBatch:
        """Hand over what has finished since the last call."""
        finished = self.take_finished()
        told = gather_rows([row for each in finished for row in each.rows], has_turns=self._has_turns)
        seen = assemble_traces((each.episode, each.traces) for each in finished)
        return EpisodeBatch(
            episodes=tuple(each.episode for each in finished), experiences=Experiences.concatenate([told, seen])
        )

    def take_counts(self) -> Counts:
        """What endpoints, rewards and workflows have done since the last call, by name of the metric."""
        counts: Counter[str] = Counter() if self._endpoints is None else Counter(self._endpoints.take_counts())
        for each in self._all():
            counts.update(each.take_counts())
        return dict(counts)

    def close(self) -> None:
        """Give up what is in flight, and give back everything. Closing again changes nothing."""
        self._flight.close(self._give_back)

    async def _give_back(self) -> None:
        for each in self._all():
            await each.close()
        if self._endpoints is not None:
            await self._endpoints.close()
        await self._sampler.engine.close()

    @property
    def _has_turns(self) -> bool:
        """The same for all rows of a run, whatever they are of."""
        return any(each.has_turns for each in self._all())

    def _all(self) -> list[Rollouts]:
        """Each once, though several sets may share one."""
        every = [*self._rollouts.values(), *([self._default] if self._default is not None else [])]
        return list({id(each): each for each in every}.values())

    async def _play(self, task: Task) -> Finished:
        rollouts = self._rollouts.get(task.game, self._default)
        if rollouts is None:
            raise KeyError(f"nothing plays {task.game}")
        return await rollouts.play(task)
