"""Plays many games of words at once: a coroutine each, over one engine, in one event loop.

The same face as the host runner: `submit`, then `step` until `is_idle`, and `harvest` in between. A game that raises,
breaks its protocol or exceeds its deadline costs its own episode and frees its slot; one that the engine interrupts by
being out of reach is played again. What an episode comes to does not depend on its neighbours as long as the engine is
repeatable: every reply has its own seed.

Seats that an endpoint holds have its engine instead, and their conversations its form. It is a fixed player: nobody
waits for one that is out of reach, and an episode that it fails in is a failed one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ludus.config import ExploreConfig, PromptConfig, SamplingConfig
from ludus.errors import EnvError, RolloutError, TimeoutExceeded, boundary
from ludus.explore.players.endpoints import Counts, Endpoints
from ludus.explore.players.network_seats import Networks, NetworkSeat
from ludus.explore.players.text import TextPlayer
from ludus.explore.prompts import find_prompt
from ludus.explore.runners.assembly import assemble_traces, sequence_facts
from ludus.explore.runners.conversation_rows import Row, gather_rows
from ludus.explore.runners.in_flight import InFlight
from ludus.explore.runners.text_episode import TextEpisode
from ludus.explore.speaker import Speaker
from ludus.games.text_protocol import TextGame
from ludus.inference.conversation import Conversation
from ludus.inference.outage import Outage
from ludus.inference.policy_voice import ANSWER_S, PolicyVoice
from ludus.inference.protocol import Completion, Engine, Request
from ludus.lm.chat import ChatFormat
from ludus.records import Episode, EpisodeBatch, Experiences, Seat, Task, episode_id
from ludus.runtime import Pulse

ENDPOINTS_SHARE = 0.95
"""Share of an episode's time after which endpoints are given up, so that the error names the one that kept it."""

Finished = tuple[TextEpisode | None, Episode]


class TextRunner:
    """Keeps up to `slots` games of words in flight."""

    def __init__(
        self,
        *,
        run: str,
        games: Callable[[str], TextGame],
        players: Callable[[str, TextGame], TextPlayer | None],
        engine: Engine,
        chat: ChatFormat,
        prompt: PromptConfig,
        sampling: SamplingConfig,
        slots: int,
        deadline_s: float = math.inf,
        patience_s: float = 0.0,
        pulse: Pulse | None = None,
        endpoints: Endpoints | None = None,
        networks: Networks | None = None,
        max_length: int | None = None,
    ) -> None:
        """`players(name, game)` gives the fixed player of that name, or None when it is the policy or an endpoint.

        `deadline_s` and `max_length` bound an episode in time and in moves, `patience_s` the time that the engine may
        be out of reach. Seats of `networks` are theirs, and `players` is not asked about them.
        """
        self._run = run
        self._games = games
        self._players = players
        self._prompt = prompt
        self._outage = Outage(patience_s)
        self._pulse = pulse or Pulse()
        self._voice = PolicyVoice(
            engine, sampling, stop_tokens=chat.stop_tokens, outage=self._outage, pulse=self._pulse
        )
        self._policy = Speaker(
            engine=engine,
            chat=chat,
            template=find_prompt(prompt.template),
            action=prompt.action,
            sampling=self._voice.sampling,
            greedy=self._voice.greedy,
        )
        self._endpoints = endpoints or Endpoints(ExploreConfig())
        self.slots = slots
        self._deadline_s = deadline_s
        self._networks = networks
        self._max_length = max_length
        self._flight: InFlight[Finished] = InFlight(self._play, slots=slots, outage=self._outage, pulse=self._pulse)

    @property
    def trouble(self) -> str:
        """Why the engine cannot be reached now; empty while it can."""
        return self._outage.reason

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

    def harvest(self) -> EpisodeBatch:
        """Hand over what has finished since the last call."""
        finished = self._flight.take()
        # Of the policies of a run one learns, so there are rows of one kind.
        told = assemble_conversations(finished, by_turn=self._prompt.rows == "turn")
        seen = assemble_traces((episode, playing.traces) for playing, episode in finished if playing)
        return EpisodeBatch(
            episodes=tuple(episode for _, episode in finished), experiences=Experiences.concatenate([told, seen])
        )

    def take_counts(self) -> Counts:
        """What endpoints have done since the last call, by name of the metric."""
        return self._endpoints.take_counts()

    def close(self) -> None:
        """Give up what is in flight, the engine and the endpoints. Closing again changes nothing."""
        self._flight.close(self._give_back)

    async def _give_back(self) -> None:
        await self._endpoints.close()
        await self._voice.engine.close()

    # -- one episode -----------------------------------------------------------------------------------------------

    async def _play(self, task: Task) -> Finished:
        """One episode, whatever happens to it; raises `Interrupted` when it is to be played again."""
        id = episode_id(self._run, task.id, task.attempt)
        playing: TextEpisode | None = None
        ends = time.monotonic() + ENDPOINTS_SHARE * self._deadline_s
        try:
            with boundary(EnvError, f"{task.game} could not start"):
                playing = self._open(task, id, ends)
            async with asyncio.timeout(None if math.isinf(self._deadline_s) else self._deadline_s):
                await playing.play()
                await self._endpoints.judge(playing, ends=ends)
        except TimeoutError:
            late = f"{TimeoutExceeded.__name__}: the episode took longer than {self._deadline_s:g} s"
            return None, playing.finish(late) if playing else Episode.failed(id, task, late)
        except RolloutError as error:
            text = f"{type(error).__name__}: {error}"
            return None, playing.finish(text) if playing else Episode.failed(id, task, text)
        finally:
            for seat in range(len(task.seats)):
                self._voice.engine.end_session(f"{id}/{seat}")
        return playing, playing.finish()

    def _open(self, task: Task, id: Any, ends: float) -> TextEpisode:
        game = self._games(task.game)
        networks = self._network_seats(task, game)
        players = tuple(
            None if number in networks else self._players(seat.policy.name, game)
            for number, seat in enumerate(task.seats)
        )
        speakers = tuple(self._endpoints.speaker(seat.policy.name) or self._policy for seat in task.seats)
        return TextEpisode(
            task,
            game,
            id,
            players=players,
            conversations={
                seat: Conversation(speakers[seat].chat, speakers[seat].template.system)
                for seat, player in enumerate(players)
                if seat not in networks and (player is None or task.seats[seat].learns)
            },
            speakers=speakers,
            prompt=self._prompt,
            voice=partial(self._speak, ends=ends),
            mark=self._pulse.working_on,
            networks=networks,
            max_length=self._max_length,
        )

    def _network_seats(self, task: Task, game: TextGame) -> dict[int, NetworkSeat]:
        networks = self._networks
        if networks is None:
            return {}
        seats = (number for number, seat in enumerate(task.seats) if networks.is_network(seat.policy.name))
        return {number: networks.seat(number, task, game) for number in seats}

    async def _speak(
        self, seat: Seat, conversation: Conversation, *, session: str, seed: int, ends: float
    ) -> Completion:
        endpoint = self._endpoints.speaker(seat.policy.name)
        speaker = endpoint or self._policy
        request = Request(
            prompt=conversation.prompt,
            policy=seat.policy,
            sampling=speaker.greedy if seat.greedy else speaker.sampling,
            seed=seed,
            deadline_s=ANSWER_S if endpoint is None else min(ANSWER_S, max(ends - time.monotonic(), 0.0)),
            session=session,
        )
        if endpoint is None:
            return await self._voice.ask(request)
        completion = await endpoint.engine.generate(request)
        self._pulse.tick()
        return completion


def assemble_conversations(finished: Iterable[Finished], *, by_turn: bool) -> Experiences:
    """The sequences of the learning seats of episodes that ended well, as one columnar batch."""
    rows: list[Row] = []
    for playing, episode in finished:
        for seat, conversation in playing.conversations.items() if playing else ():
            if not episode.task.seats[seat].learns or not conversation.replies:
                continue
            facts = sequence_facts(episode, seat)
            if by_turn:
                turns = conversation.as_turns(facts["final_reward"])
                rows += [({**facts, "turn": turn}, columns) for turn, columns in enumerate(turns)]
            else:
                rows.append((facts, conversation.as_episode()))
    return gather_rows(rows, has_turns=by_turn)
