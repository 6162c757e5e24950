"""Keeps many episodes of a language model in flight: games of words and attempts at tasks, over one engine.

A coroutine each, in one event loop that runs while somebody calls `step`. The same face as the host runner: `submit`,
then `step` until `is_idle`, and `harvest` in between. What an episode comes to does not depend on its neighbours as
long as the engine is repeatable: every reply has its own seed. How a task is played is its game's or taskset's
business (`Rollouts`).

Invariant: every task that was submitted and is not cancelled comes out once, when its coroutine returns. One that the
engine interrupted by being out of reach begins again, and while the engine is, one at a time tries.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from ludus.explore.players.endpoints import Counts, Endpoints
from ludus.explore.runners.assembly import Row, assemble_traces, gather_rows
from ludus.explore.runners.slot import SeatTrace
from ludus.explore.runners.speech_tally import SpeechTally
from ludus.inference.policy_sampler import Interrupted, PolicySampler
from ludus.inference.protocol import TakesServers
from ludus.records import Episode, EpisodeBatch, EpisodeId, Experiences, Task, episode_id
from ludus.runtime import NO_TASK

if TYPE_CHECKING:
    from ludus.explore.runners.text_rollouts import TextRollouts
    from ludus.explore.runners.workflow_episode import WorkflowEpisode, WorkflowRollouts

    Rollouts: TypeAlias = TextRollouts | WorkflowRollouts
    """Plays the tasks of one game or taskset, with its own prompt, sampling, workflow and rewards."""

STEP_S = 0.05
"""How long one `step` goes on when nothing finishes, at most."""


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
        self._waiting: deque[Task] = deque()
        self._playing: dict[asyncio.Task[Finished | None], Task] = {}
        self._ending: set[asyncio.Task[Finished | None]] = set()
        """Cancelled, and not over yet. They keep no slot."""
        self._finished: list[Finished] = []
        self.speech = SpeechTally(sampler.engine)
        self._loop = asyncio.new_event_loop()

    @property
    def trouble(self) -> str:
        """Why the engine cannot be reached now; empty while it can."""
        return self._sampler.trouble

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to play."""
        return not self._playing and not self._waiting and not self._ending

    @property
    def finished_episodes(self) -> int:
        """Episodes that the next harvest would return."""
        return len(self._finished)

    @property
    def sampled_tokens(self) -> int:
        """That the engine has written so far, for every seat and purpose."""
        return self._sampler.engine.counters.sampled_tokens

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks; each starts as soon as a slot is free."""
        self._waiting.extend(tasks)

    def take_servers(self, urls: Sequence[str]) -> None:
        """The inference servers that there are from now on."""
        if isinstance(self._sampler.engine, TakesServers):
            self._sampler.engine.take_servers(urls)

    def cancel(self, tasks: Iterable[int]) -> None:
        """Give up these tasks, begun or not; what is not handed over yet goes, too."""
        doomed = set(tasks)
        self._waiting = deque(task for task in self._waiting if task.id not in doomed)
        self._finished = [finished for finished in self._finished if finished.episode.task.id not in doomed]
        for playing in [each for each, task in self._playing.items() if task.id in doomed]:
            del self._playing[playing]
            playing.cancel()
            self._ending.add(playing)

    def progress(self) -> list[tuple[int, int]]:
        """Tasks that are being played, and tokens sampled so far."""
        sampled = self._sampler.sampled()
        return [(task.id, sampled[self._episode(task)]) for task in self._playing.values()]

    def step(self) -> None:
        """Play on until an episode ends, or for a moment.

        Raises:
            EngineLost: the engine has been out of reach for too long.
        """
        while self._waiting and len(self._playing) < (1 if self.trouble else self.slots):
            task = self._waiting.popleft()
            self._playing[self._loop.create_task(self._play(task))] = task
        if self._playing or self._ending:
            self._loop.run_until_complete(self._play_on())
            self.speech.look()
        self._sampler.pulse.working_on(NO_TASK)
        self._sampler.pulse.tick()

    def take_finished(self) -> list[Finished]:
        """What has finished since the last call, with all that is known of it; failed episodes, too."""
        finished, self._finished = self._finished, []
        return finished

    def harvest(self) -> EpisodeBatch:
        """Hand over what has finished since the last call."""
        finished = self.take_finished()
        # The same for all rows of a run, whatever they are of.
        has_turns = any(each.has_turns for each in self._all())
        told = gather_rows([row for each in finished for row in each.rows], has_turns=has_turns)
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
        if self._loop.is_closed():
            return
        self.cancel([task.id for task in self._playing.values()])
        self._loop.run_until_complete(self._give_back())
        self._loop.close()

    async def _give_back(self) -> None:
        await asyncio.gather(*self._ending, return_exceptions=True)
        for each in self._all():
            await each.close()
        if self._endpoints is not None:
            await self._endpoints.close()
        await self._sampler.engine.close()

    def _all(self) -> list[Rollouts]:
        """Each once, though several sets may share one."""
        every = (*self._rollouts.values(), self._default)
        return list({id(each): each for each in every if each is not None}.values())

    async def _play_on(self) -> None:
        done, _ = await asyncio.wait(
            {*self._playing, *self._ending}, timeout=STEP_S, return_when=asyncio.FIRST_COMPLETED
        )
        failures = [failure for each in done if not each.cancelled() and (failure := each.exception()) is not None]
        if failures:
            raise failures[0]
        for each in done - self._ending:
            task, finished = self._playing.pop(each), each.result()
            if finished is None:
                self._waiting.appendleft(task)
            else:
                self._finished.append(finished)
        self._ending -= done

    async def _play(self, task: Task) -> Finished | None:
        """None: it is to begin again."""
        try:
            finished = await self._rollouts_of(task).play(task)
        except Interrupted:
            return None
        finally:
            said = self._sampler.end_episode(self._episode(task))
        self.speech.add(task, finished.episode, said)
        return replace(finished, episode=structs.replace(finished.episode, sampled=said.tokens))

    def _rollouts_of(self, task: Task) -> Rollouts:
        rollouts = self._rollouts.get(task.game, self._default)
        if rollouts is None:
            raise KeyError(f"nothing plays {task.game}")
        return rollouts

    def _episode(self, task: Task) -> EpisodeId:
        return episode_id(self._rollouts_of(task).run, task.id, task.attempt)
