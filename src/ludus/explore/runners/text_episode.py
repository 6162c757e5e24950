"""One game of words, played to its end: whose turn it is, what they say, what comes of it.

A seat is told what is wrong with an invalid move, `explore.prompt.invalid_moves` times in a row. One more, and it
forfeits: it gets `explore.prompt.invalid_reward`, and the others share the opposite.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ludus.config import PromptConfig
from ludus.errors import EnvError, RolloutError, rollout_error
from ludus.explore.phrasing import phrase
from ludus.explore.players.network_seats import NetworkSeat
from ludus.explore.players.text import TextPlayer
from ludus.explore.runners.slot import SeatTrace
from ludus.explore.speaker import Speaker
from ludus.games.protocol import InvalidMove, TextGame, TextPosition
from ludus.inference.conversation import Conversation
from ludus.inference.policy_sampler import ANSWER_S
from ludus.inference.protocol import Request
from ludus.lm.extraction import extract
from ludus.records import Episode, EpisodeId, Task, derive_seed

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Record:
    """What has been said and done so far."""

    plies: list[int] = field(default_factory=list)
    seats: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)

    def add(self, ply: int, seat: int, move: str, reply: str, *, is_valid: bool) -> None:
        """Note one attempt at a move."""
        self.plies.append(ply)
        self.seats.append(seat)
        self.accepted.append(int(is_valid))
        self.moves.append(move)
        self.replies.append(reply)


class TextEpisode:
    """A game in flight. `play` runs it; afterwards `finish` and `conversations` have what there is to know."""

    def __init__(
        self,
        task: Task,
        game: TextGame,
        id: EpisodeId,
        *,
        players: tuple[TextPlayer | None, ...],
        conversations: dict[int, Conversation],
        speakers: tuple[Speaker, ...],
        prompt: PromptConfig,
        mark: Callable[[int], None],
        networks: Mapping[int, NetworkSeat] | None = None,
        max_length: int | None = None,
        ends: float = math.inf,
    ) -> None:
        """One game.

        Args:
            players: the fixed player of each seat, None where a policy speaks.
            conversations: by seat, where what is said is kept as tokens: policies, and players to be learnt from.
            speakers: how each seat with a conversation talks.
            mark: notes whose code runs.
            networks: by seat, where a network plays on the board below the words.
            max_length: moves after which the game is cut. Default: none.
            ends: when endpoints are given up, by `time.monotonic`.
        """
        self.task = task
        self.game = game
        self.id = id
        self.conversations = conversations
        self._players = players
        self._speakers = speakers
        self._prompt = prompt
        self._mark = mark
        self._networks = networks or {}
        self._max_length = max_length
        self._ends = ends
        self._started = time.monotonic()
        self._record = Record()
        self._ply = 0
        self._invalid_in_a_row = 0
        self._credited = [0.0] * game.spec.players
        self.truncated = False
        self.returns: tuple[float, ...] = (0.0,) * game.spec.players

    async def play(self) -> None:
        """Play until the rules, a forfeit or a limit end it.

        Raises:
            RolloutError: the game, a player or the engine failed.
        """
        position = await self._guarded(self.game.start, self.task.game_seed)
        while (seat := await self._guarded(position.acting)) is not None:
            if self._is_over_limit(seat):
                self.truncated = True
                break
            move, reply = await self._decide(position, seat)
            if not await self._make_move(position, seat, move, reply):
                self._settle(self._forfeit(seat))
                return
        self._settle([float(value) for value in await self._guarded(position.returns)])

    def finish(self, error: str = "") -> Episode:
        """The episode as a record."""
        record = self._record
        return Episode(
            id=self.id,
            task=self.task,
            returns=self.returns if not error else (0.0,) * len(self.returns),
            move_plies=np.array(record.plies, np.int32),
            move_seats=np.array(record.seats, np.int16),
            move_actions=np.array(record.accepted, np.int32),
            move_texts=tuple(record.moves),
            replies=tuple(record.replies),
            truncated=self.truncated,
            error=error,
            duration_s=time.monotonic() - self._started,
        )

    @property
    def traces(self) -> dict[int, SeatTrace]:
        """What networks that learn have seen and done, by seat."""
        return {seat: network.trace for seat, network in self._networks.items() if network.trace is not None}

    # -- one turn --------------------------------------------------------------------------------------------------

    def _is_over_limit(self, seat: int) -> bool:
        if self._max_length is not None and self._ply >= self._max_length:
            return True
        conversation, most = self.conversations.get(seat), self._prompt.max_turns
        return most is not None and conversation is not None and len(conversation.replies) >= most

    async def _decide(self, position: TextPosition, seat: int) -> tuple[str, str]:
        if seat in self._networks:
            return await self._decide_on_board(position, seat)
        player, conversation = self._players[seat], self.conversations.get(seat)
        if conversation is None and player is not None:
            move = await self._guarded(player.choose, position, seat, self._generator(seat))
            return move, move
        moves = await self._guarded(position.moves, seat)
        conversation, speaker = self.conversations[seat], self._speakers[seat]
        if not self._invalid_in_a_row:
            conversation.hear(speaker.template.message(await self._guarded(position.news, seat), moves))
            self._collect(seat, await self._guarded(position.returns))
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
        left_s = max(self._ends - time.monotonic(), 0.0) if speaker.is_endpoint else ANSWER_S
        return Request(
            prompt=conversation.prompt,
            policy=who.policy,
            sampling=speaker.greedy if who.greedy else speaker.sampling,
            seed=derive_seed(task.seed, "speak", task.attempt, seat, len(conversation.replies)),
            deadline_s=min(ANSWER_S, left_s),
            session=f"{self.id}/{seat}",
        )

    async def _decide_on_board(self, position: TextPosition, seat: int) -> tuple[str, str]:
        network = self._networks[seat]
        sight = await self._guarded(network.look, position)
        action = await network.decide(sight, self._ply)
        move = await self._guarded(network.say, position, action)
        return move, move

    async def _make_move(self, position: TextPosition, seat: int, move: str, reply: str) -> bool:
        """Whether the game goes on: the move was made, or may be tried again."""
        conversation = self.conversations.get(seat)
        try:
            await self._guarded(position.act, seat, move)
        except InvalidMove as problem:
            if conversation is None:
                raise EnvError(f"{self.game.spec.key}: a fixed player's move is invalid: {problem}") from problem
            self._record.add(self._ply, seat, move, reply, is_valid=False)
            conversation.replies[-1].is_invalid = True
            self._invalid_in_a_row += 1
            if self._invalid_in_a_row > self._prompt.invalid_moves:
                return False
            conversation.hear(self._speakers[seat].template.retry(await self._guarded(position.moves, seat)))
            return True
        self._record.add(self._ply, seat, move, reply, is_valid=True)
        self._ply += 1
        self._invalid_in_a_row = 0
        return True

    # -- rewards ---------------------------------------------------------------------------------------------------

    def _collect(self, seat: int, returns: Any) -> None:
        """Credit what a seat has earned since its last reply, before it speaks again."""
        total = float(returns[seat])
        self.conversations[seat].credit(total - self._credited[seat])
        self._credited[seat] = total

    def _settle(self, returns: list[float]) -> None:
        self.returns = tuple(returns)
        for seat, conversation in self.conversations.items():
            conversation.credit(returns[seat] - self._credited[seat])
        for seat, network in self._networks.items():
            network.credit(returns[seat])

    def _forfeit(self, loser: int) -> list[float]:
        spec = self.game.spec
        cost = self._prompt.invalid_reward
        share = -cost / max(spec.players - 1, 1)
        wanted = [cost if seat == loser else share for seat in range(spec.players)]
        return [min(max(value, spec.min_return), spec.max_return) for value in wanted]

    # -- other people's code ---------------------------------------------------------------------------------------

    async def _guarded(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run the game's or a player's code, beside the event loop if it may block."""
        self._mark(self.task.id)
        try:
            if self.game.blocks:
                return await asyncio.to_thread(call, *arguments)
            return call(*arguments)
        except RolloutError:
            raise
        except Exception as error:  # whatever a game may raise
            raise rollout_error(EnvError, self.task.game, error) from error

    def _generator(self, seat: int) -> np.random.Generator:
        return np.random.default_rng(derive_seed(self.task.seed, "player", self.task.attempt, seat, self._ply))
