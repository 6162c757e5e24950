"""Plays many games of words at once: a coroutine each, over one engine, in one event loop.

The same face as the host runner: `submit`, then `step` until `is_idle`, and `harvest` in between. A game that raises,
breaks its protocol or exceeds its deadline costs its own episode and frees its slot. What an episode comes to does not
depend on its neighbours as long as the engine is repeatable: every reply has its own seed.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ludus.config.play import SpeechConfig
from ludus.errors import EnvError, RolloutError, TimeoutExceeded, boundary
from ludus.explore.assembly import DTYPES, sequence_facts
from ludus.explore.conversation import Columns, Conversation
from ludus.explore.engines.protocol import Completion, Engine, Request, Sampling
from ludus.explore.prompts import find_prompt
from ludus.explore.text_episode import TextEpisode
from ludus.explore.text_players import TextPlayer
from ludus.games.text_protocol import TextGame
from ludus.policies.chat import ChatFormat
from ludus.records import SEQUENCE_COLUMNS, Episode, EpisodeBatch, Experiences, Seat, Task, episode_id
from ludus.runtime import NO_TASK, Pulse

STEP_S = 0.05
"""How long one `step` plays on when nothing finishes, at most."""

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
        speech: SpeechConfig,
        slots: int,
        deadline_s: float = math.inf,
        pulse: Pulse | None = None,
    ) -> None:
        """`players(name, game)` gives the fixed player of that name, or None when it is the policy that learns."""
        self._run = run
        self._games = games
        self._players = players
        self._engine = engine
        self._chat = chat
        self._speech = speech
        self._template = find_prompt(speech.prompt)
        self._sampling = {greedy: self._make_sampling(greedy) for greedy in (False, True)}
        self.slots = slots
        self._deadline_s = deadline_s
        self._pulse = pulse or Pulse()
        self._waiting: deque[Task] = deque()
        self._playing: set[asyncio.Task[Finished]] = set()
        self._finished: list[Finished] = []
        self._loop = asyncio.new_event_loop()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to play."""
        return not self._playing and not self._waiting

    @property
    def finished_episodes(self) -> int:
        """Episodes that the next harvest would return."""
        return len(self._finished)

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks; each starts as soon as a slot is free."""
        self._waiting.extend(tasks)

    def step(self) -> None:
        """Play on until an episode ends, or for a moment."""
        while self._waiting and len(self._playing) < self.slots:
            self._playing.add(self._loop.create_task(self._play(self._waiting.popleft())))
        if self._playing:
            self._loop.run_until_complete(self._play_on())
        self._pulse.working_on(NO_TASK)
        self._pulse.tick()

    def harvest(self) -> EpisodeBatch:
        """Hand over what has finished since the last call."""
        finished, self._finished = self._finished, []
        return EpisodeBatch(
            episodes=tuple(episode for _, episode in finished),
            experiences=assemble_conversations(finished, by_turn=self._speech.rows == "turn"),
        )

    def close(self) -> None:
        """Give up what is in flight, and the engine."""
        for playing in self._playing:
            playing.cancel()
        self._loop.run_until_complete(self._engine.close())
        self._loop.close()

    # -- one episode -----------------------------------------------------------------------------------------------

    async def _play_on(self) -> None:
        done, self._playing = await asyncio.wait(self._playing, timeout=STEP_S, return_when=asyncio.FIRST_COMPLETED)
        self._finished += [each.result() for each in done]

    async def _play(self, task: Task) -> Finished:
        """One episode, whatever happens to it."""
        id = episode_id(self._run, task.id, task.attempt)
        playing: TextEpisode | None = None
        try:
            with boundary(EnvError, f"{task.game} could not start"):
                playing = self._open(task, id)
            async with asyncio.timeout(None if math.isinf(self._deadline_s) else self._deadline_s):
                await playing.play()
        except TimeoutError:
            late = f"{TimeoutExceeded.__name__}: the episode took longer than {self._deadline_s:g} s"
            return None, playing.finish(late) if playing else Episode.failed(id, task, late)
        except RolloutError as error:
            text = f"{type(error).__name__}: {error}"
            return None, playing.finish(text) if playing else Episode.failed(id, task, text)
        finally:
            for seat in range(len(task.seats)):
                self._engine.end_session(f"{id}/{seat}")
        return playing, playing.finish()

    def _open(self, task: Task, id: Any) -> TextEpisode:
        game = self._games(task.game)
        players = tuple(self._players(seat.policy.name, game) for seat in task.seats)
        return TextEpisode(
            task,
            game,
            id,
            players=players,
            conversations={
                seat: Conversation(self._chat, self._template.system)
                for seat, player in enumerate(players)
                if player is None or task.seats[seat].learns
            },
            template=self._template,
            speech=self._speech,
            voice=self._speak,
            mark=self._pulse.working_on,
        )

    async def _speak(self, seat: Seat, conversation: Conversation, *, session: str, seed: int) -> Completion:
        completion = await self._engine.generate(
            Request(
                prompt=conversation.prompt,
                policy=seat.policy,
                sampling=self._sampling[seat.greedy],
                seed=seed,
                session=session,
            )
        )
        self._pulse.tick()
        return completion

    def _make_sampling(self, greedy: bool) -> Sampling:
        speech = self._speech
        return Sampling(
            max_tokens=speech.max_tokens,
            temperature=0.0 if greedy else speech.temperature,
            top_p=speech.top_p,
            top_k=speech.top_k,
            stop_tokens=self._chat.stop_tokens,
        )


def assemble_conversations(finished: Iterable[Finished], *, by_turn: bool) -> Experiences:
    """The sequences of the learning seats of episodes that ended well, as one columnar batch."""
    rows: list[dict[str, Any]] = []
    parts: list[Columns] = []
    for playing, episode in finished:
        for seat, conversation in playing.conversations.items() if playing else ():
            if not episode.task.seats[seat].learns or not conversation.replies:
                continue
            facts = sequence_facts(episode, seat)
            turns = conversation.as_turns(facts["final_reward"]) if by_turn else [conversation.as_episode()]
            rows += [{**facts, "turn": turn} if by_turn else facts for turn in range(len(turns))]
            parts += turns
    if not rows:
        return Experiences.empty()
    names = (*SEQUENCE_COLUMNS, "turn") if by_turn else SEQUENCE_COLUMNS
    kinds: dict[str, Any] = {**DTYPES, "turn": np.int64}
    sequences: dict[str, NDArray[Any]] = {
        name: np.array([row[name] for row in rows], kinds.get(name, object)) for name in names
    }
    lengths = [len(part["action"]) for part in parts]
    return Experiences(
        sequences=sequences,
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        steps={name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
    )
