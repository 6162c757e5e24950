"""Plays games of words, with one prompt and one sampling for the policy.

A game that raises, breaks its protocol or exceeds its deadline costs its own episode; one that the engine interrupts by
being out of reach is played again. Seats that an endpoint holds have its engine instead, and their conversations its
form. It is a fixed player: nobody waits for one that is out of reach, and an episode that it fails in is a failed one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from statistics import fmean

from ludus.config import ExploreConfig, PromptConfig, SamplingConfig
from ludus.errors import EnvError, RolloutError, TimeoutExceeded, boundary
from ludus.explore.players.endpoints import Counts, Endpoints
from ludus.explore.players.fixed import TextPlayer
from ludus.explore.players.network_seats import Networks
from ludus.explore.prompts import Speaker, find_prompt
from ludus.explore.runners.assembly import conversation_rows
from ludus.explore.runners.language_runner import Finished
from ludus.explore.runners.text_episode import TextEpisode, TextSeat
from ludus.games.protocol import TextGame
from ludus.inference.conversation import Conversation
from ludus.inference.policy_sampler import PolicySampler, make_sampling
from ludus.records import Episode, EpisodeId, Task, derive_seed, episode_id
from ludus.rewards.rewards import Rewards

ENDPOINTS_SHARE = 0.95
"""Share of an episode's time after which endpoints are given up, so that the error names the one that kept it."""


class TextRollouts:
    """Plays games, any number at once."""

    def __init__(
        self,
        *,
        run: str,
        games: Callable[[str], TextGame],
        players: Callable[[str, TextGame], TextPlayer | None],
        sampler: PolicySampler,
        prompt: PromptConfig,
        sampling: SamplingConfig,
        rewards: Rewards | None = None,
        deadline_s: float = math.inf,
        endpoints: Endpoints | None = None,
        networks: Networks | None = None,
        max_length: int | None = None,
    ) -> None:
        """`players(name, game)` gives the fixed player of that name, or None when it is the policy or an endpoint.

        `rewards` score the replies of learning seats, besides the rules; they are closed with this. `deadline_s` and
        `max_length` bound an episode in time and in moves. Seats of `networks` are theirs, and `players` is not asked
        about them.
        """
        self.run = run
        self._games = games
        self._players = players
        self._sampler = sampler
        self._prompt = prompt
        self._sampling = sampling
        self._rewards = rewards
        self._policy = Speaker(
            sample=sampler.sample,
            chat=sampler.template,
            template=find_prompt(prompt.template),
            action=prompt.action,
            sampling=make_sampling(sampling, sampler.template.stop_tokens),
        )
        self._endpoints = endpoints or Endpoints(ExploreConfig())
        self._deadline_s = deadline_s
        self._networks = networks
        self._max_length = max_length

    @property
    def has_turns(self) -> bool:
        """Whether every reply is a training sequence, which says which turn it is."""
        return self._prompt.rows == "turn"

    async def play(self, task: Task) -> Finished:
        """One episode, whatever happens to it; raises `Interrupted` when it is to be played again."""
        id = episode_id(self.run, task.id, task.attempt)
        playing: TextEpisode | None = None
        ends = time.monotonic() + ENDPOINTS_SHARE * self._deadline_s
        try:
            with boundary(EnvError, f"{task.game} could not start"):
                playing = self._open(task, id, ends)
            async with asyncio.timeout(None if math.isinf(self._deadline_s) else self._deadline_s):
                await playing.play()
                await self._endpoints.judge(playing, ends=ends)
                await self._score(playing)
        except TimeoutError:
            return _failed(playing, id, task, TimeoutExceeded(f"the episode took longer than {self._deadline_s:g} s"))
        except RolloutError as error:
            return _failed(playing, id, task, error)
        finally:
            for seat in range(len(task.seats)):
                self._sampler.engine.end_session(f"{id}/{seat}")
        episode = playing.finish()
        rows = [
            row
            for seat, conversation in playing.learners()
            for row in conversation_rows(episode, seat, [conversation], by_turn=self.has_turns)
        ]
        return Finished(episode=episode, rows=rows, traces=playing.traces)

    def take_counts(self) -> Counts:
        """What rewards have done since the last call. Endpoints are counted by the runner."""
        return {} if self._rewards is None else self._rewards.take_counts()

    async def close(self) -> None:
        """Give back the rewards."""
        if self._rewards is not None:
            await self._rewards.close()

    async def _score(self, playing: TextEpisode) -> None:
        """Give the learning seats what the rewards say of their replies. The game's result stays the game's."""
        task = playing.task
        if self._rewards is None:
            return
        for seat, conversation in playing.learners():
            totals = []
            for number, (reply, text) in enumerate(zip(conversation.replies, conversation.said, strict=True)):
                seed = derive_seed(task.seed, "reward", task.attempt, seat, number)
                scored = await self._rewards.score(task, text, seed=seed, tokens=reply.end - reply.start)
                totals.append(scored.total)
            conversation.add_bonus(fmean(totals))

    def _open(self, task: Task, id: EpisodeId, ends: float) -> TextEpisode:
        game = self._games(task.game)
        return TextEpisode(
            task,
            game,
            id,
            [self._seat(number, task, game) for number in range(len(task.seats))],
            prompt=self._prompt,
            mark=self._sampler.pulse.working_on,
            max_length=self._max_length,
            ends=ends,
        )

    def _seat(self, number: int, task: Task, game: TextGame) -> TextSeat:
        name, networks = task.seats[number].policy.name, self._networks
        speaker = self._endpoints.speaker(name, self._prompt, self._sampling) or self._policy
        if networks is not None and networks.is_network(name):
            return TextSeat(speaker=speaker, network=networks.seat(number, task, game))
        player = self._players(name, game)
        is_heard = player is None or task.seats[number].learns
        conversation = Conversation(speaker.chat, speaker.template.system) if is_heard else None
        return TextSeat(speaker=speaker, player=player, conversation=conversation)


def _failed(playing: TextEpisode | None, id: EpisodeId, task: Task, error: RolloutError) -> Finished:
    text = f"{type(error).__name__}: {error}"
    return Finished(episode=playing.finish(text) if playing else Episode.failed(id, task, text))
