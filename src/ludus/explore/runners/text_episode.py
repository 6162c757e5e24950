"""One game of words, played to its end: whose turn it is, what they say, what comes of it.

A seat is told what is wrong with an invalid move, `explore.prompt.invalid_moves` times in a row. One more, and it
forfeits: it gets `explore.prompt.invalid_reward`, and the others share the opposite.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ludus.config import PromptConfig
from ludus.errors import EnvError, RolloutError, rollout_error
from ludus.explore.players.fixed import TextPlayer
from ludus.explore.players.network_seats import NetworkSeat
from ludus.explore.prompts import Speaker, phrase
from ludus.explore.runners.slot import SeatTrace
from ludus.games.answers import read_returns
from ludus.games.protocol import InvalidMove, TextGame, TextPosition
from ludus.inference.conversation import Conversation
from ludus.inference.policy_sampler import ANSWER_S
from ludus.inference.protocol import Request
from ludus.lm.extraction import extract
from ludus.records import Episode, EpisodeId, Task, derive_seed

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Record:
    """What has been said and done so far, and what came of it."""

    returns: tuple[float, ...]
    truncated: bool = False
    started: float = field(default_factory=time.monotonic)
    attempts: list[tuple[int, int, int, str, str]] = field(default_factory=list)
    """Of each attempt at a move: ply, seat, 1 if it was accepted, the move, and the reply that it was found in."""


@dataclass(slots=True, kw_only=True)
class TextSeat:
    """One seat: a network plays it on the board below the words, or a fixed player, or the speaker."""

    speaker: Speaker
    player: TextPlayer | None = None
    network: NetworkSeat | None = None
    conversation: Conversation | None = None
    """What is said, kept as tokens: of policies, and of players to be learnt from."""
    credited: float = 0.0

    def credit(self, total: float) -> None:
        """Give what the seat has earned since the last call to its last decision or reply."""
        if self.network is not None:
            self.network.credit(total)
        elif self.conversation is not None:
            self.conversation.credit(total - self.credited)
            self.credited = total


class TextEpisode:
    """A game in flight. `play` runs it; afterwards `finish`, `learners` and `traces` have what there is to know."""

    def __init__(
        self,
        task: Task,
        game: TextGame,
        id: EpisodeId,
        seats: Sequence[TextSeat],
        *,
        prompt: PromptConfig,
        mark: Callable[[int], None],
        max_length: int | None = None,
        ends: float = math.inf,
    ) -> None:
        """One game.

        Args:
            mark: notes whose code runs.
            max_length: moves after which the game is cut. Default: none.
            ends: when endpoints are given up, by `time.monotonic`.
        """
        self.task = task
        self._game = game
        self._id = id
        self._seats = seats
        self._prompt = prompt
        self._mark = mark
        self._max_length = max_length
        self._ends = ends
        self._record = Record(returns=(0.0,) * game.spec.players)
        self._ply = 0
        self._invalid_in_a_row = 0

    async def play(self) -> None:
        """Play until the rules, a forfeit or a limit end it.

        Raises:
            RolloutError: the game, a player or the engine failed.
        """
        position = await self._guarded(self._game.start, self.task.game_seed)
        while (seat := await self._guarded(position.acting)) is not None:
            if self._is_over_limit(seat):
                self._record.truncated = True
                break
            move, reply = await self._decide(position, seat)
            if not await self._make_move(position, seat, move, reply):
                self._settle(self._forfeit(seat))
                return
        self._settle(await self._guarded(read_returns, position, self._game.spec.players))

    def finish(self, error: str = "") -> Episode:
        """The episode as a record."""
        record = self._record
        plies, seats, accepted, moves, replies = zip(*record.attempts, strict=True) if record.attempts else ((),) * 5
        return Episode(
            id=self._id,
            task=self.task,
            returns=record.returns if not error else (0.0,) * len(record.returns),
            move_plies=np.array(plies, np.int32),
            move_seats=np.array(seats, np.int16),
            move_actions=np.array(accepted, np.int32),
            move_texts=moves,
            replies=replies,
            truncated=record.truncated,
            error=error,
            duration_s=time.monotonic() - record.started,
        )

    def learners(self) -> Iterator[tuple[int, Conversation]]:
        """Conversations of the learning seats that have said something."""
        for number, seat in enumerate(self._seats):
            if self.task.seats[number].learns and seat.conversation is not None and seat.conversation.replies:
                yield number, seat.conversation

    @property
    def traces(self) -> dict[int, SeatTrace]:
        """What networks that learn have seen and done, by seat."""
        networks = ((number, seat.network) for number, seat in enumerate(self._seats))
        return {number: network.trace for number, network in networks if network and network.trace is not None}

    # -- one turn --------------------------------------------------------------------------------------------------

    def _is_over_limit(self, seat: int) -> bool:
        if self._max_length is not None and self._ply >= self._max_length:
            return True
        conversation, most = self._seats[seat].conversation, self._prompt.max_turns
        return most is not None and conversation is not None and len(conversation.replies) >= most

    async def _decide(self, position: TextPosition, seat: int) -> tuple[str, str]:
        sitting = self._seats[seat]
        if sitting.network is not None:
            return await self._decide_on_board(position, sitting.network)
        player, conversation, speaker = sitting.player, sitting.conversation, sitting.speaker
        if conversation is None:
            if player is None:
                raise ValueError(f"nobody plays seat {seat}")
            move = await self._guarded(player.choose, position, seat, self._generator(seat))
            return move, move
        moves = await self._guarded(position.moves, seat)
        if not self._invalid_in_a_row:
            conversation.hear(speaker.template.message(await self._guarded(position.news, seat), moves))
            sitting.credit((await self._guarded(read_returns, position, self._game.spec.players))[seat])
        if player is not None:
            move = await self._guarded(player.choose, position, seat, self._generator(seat))
            return move, conversation.dictate(phrase(speaker.action, move))
        completion = await speaker.sample(self._request(seat, conversation, speaker))
        reply = conversation.say(completion)
        found = extract(speaker.action, reply, moves)
        conversation.replies[-1].format_ok = found.format_ok
        return found.move, reply

    def _request(self, seat: int, conversation: Conversation, speaker: Speaker) -> Request:
        who, task = self.task.seats[seat], self.task
        # A fixed player has a manner of its own: it samples in evaluation, too, or games would repeat themselves.
        is_greedy = who.greedy and not speaker.is_endpoint
        left_s = max(self._ends - time.monotonic(), 0.0) if speaker.is_endpoint else ANSWER_S
        return Request(
            prompt=conversation.prompt,
            policy=who.policy,
            sampling=speaker.sampling.as_greedy() if is_greedy else speaker.sampling,
            seed=derive_seed(task.seed, "speak", task.attempt, seat, len(conversation.replies)),
            deadline_s=min(ANSWER_S, left_s),
            session=f"{self._id}/{seat}",
        )

    async def _decide_on_board(self, position: TextPosition, network: NetworkSeat) -> tuple[str, str]:
        sight = await self._guarded(network.look, position)
        action = await network.decide(sight, self._ply)
        move = await self._guarded(network.say, position, action)
        return move, move

    async def _make_move(self, position: TextPosition, seat: int, move: str, reply: str) -> bool:
        """Whether the game goes on: the move was made, or may be tried again."""
        sitting = self._seats[seat]
        try:
            await self._guarded(position.act, seat, move)
        except InvalidMove as problem:
            conversation = sitting.conversation
            if conversation is None:
                raise EnvError(f"{self._game.spec.key}: a fixed player's move is invalid: {problem}") from problem
            self._record.attempts.append((self._ply, seat, 0, move, reply))
            conversation.replies[-1].is_invalid = True
            self._invalid_in_a_row += 1
            if self._invalid_in_a_row > self._prompt.invalid_moves:
                return False
            conversation.hear(sitting.speaker.template.retry(await self._guarded(position.moves, seat)))
            return True
        self._record.attempts.append((self._ply, seat, 1, move, reply))
        self._ply += 1
        self._invalid_in_a_row = 0
        return True

    # -- rewards ---------------------------------------------------------------------------------------------------

    def _settle(self, returns: Sequence[float]) -> None:
        self._record.returns = tuple(returns)
        for seat, total in zip(self._seats, returns, strict=False):
            seat.credit(total)

    def _forfeit(self, loser: int) -> list[float]:
        spec = self._game.spec
        cost = self._prompt.invalid_reward
        share = -cost / max(spec.players - 1, 1)
        wanted = [cost if seat == loser else share for seat in range(spec.players)]
        return [min(max(value, spec.min_return), spec.max_return) for value in wanted]

    # -- other people's code ---------------------------------------------------------------------------------------

    async def _guarded(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run the game's or a player's code, beside the event loop if it may block."""
        self._mark(self.task.id)
        try:
            if self._game.blocks:
                return await asyncio.to_thread(call, *arguments)
            return call(*arguments)
        except RolloutError:
            raise
        except Exception as error:  # whatever a game may raise
            raise rollout_error(EnvError, self.task.game, error) from error

    def _generator(self, seat: int) -> np.random.Generator:
        return np.random.default_rng(derive_seed(self.task.seed, "player", self.task.attempt, seat, self._ply))
