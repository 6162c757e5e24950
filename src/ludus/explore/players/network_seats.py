"""Networks in games of words that have a board below them.

A network sees the board, chooses a number, and its seat says that move in words. Invariant: what it sees, what it draws
and what is noted of it where it learns is what play on boards alone would have given in the same game, to the last bit;
so a network can train in games against language models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ludus.errors import DamagedPolicy, PolicyError, StorageError
from ludus.explore.runners.slot import SeatTrace, noisy_action
from ludus.games.answers import read_returns
from ludus.games.protocol import GameSpec, Position, TextGame, TextPosition, write_state
from ludus.records import PolicyRef, Task, derive_seed
from ludus.records.uniforms import uniforms

if TYPE_CHECKING:
    from ludus.explore.actors import Needs, NetworkActors

Floats = NDArray[np.float32]


class WordsOnBoard(TextPosition, Protocol):
    """A position in words that knows its board."""

    position: Position

    def words(self, seat: int, action: int) -> str:
        """How the seat writes the legal move of that number."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a decision is made from."""

    observation: Floats
    legal: NDArray[np.bool_]
    state: Floats
    """The whole game, `[G]`, for a critic that sees it; empty for others, and where nobody learns."""
    memory: Floats
    """What the network remembers, `[M]`."""


class Choice(NamedTuple):
    """What a network does, with which log-probability, what it expects, and what it remembers from now on."""

    action: int
    logp: float
    value: float
    memory: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One decision that a game waits for."""

    sight: Sight
    uniform: np.float32
    greedy: bool
    answer: asyncio.Future[Choice]


class Networks:
    """Decides for networks; what is asked in one turn of the event loop is decided together."""

    def __init__(self, actors: NetworkActors, is_network: Callable[[str], bool], *, noise: float = 0.0) -> None:
        """`is_network` tells by its name whether a policy is one; `noise` is for seats that learn."""
        self.is_network = is_network
        self.noise = noise
        self._actors = actors
        self._waiting: dict[PolicyRef, list[Question]] = {}

    def seat(self, number: int, task: Task, game: TextGame) -> NetworkSeat:
        """A network at a game of words.

        Raises:
            PolicyError: the game has no board that it could see.
        """
        board = getattr(game, "game", None)
        if board is None:
            raise PolicyError(f"{task.seats[number].policy} is a network, and {game.spec.key} has no board to see")
        return NetworkSeat(number, task, board.spec, self)

    async def decide(self, policy: PolicyRef, sight: Sight, uniform: np.float32, *, greedy: bool) -> Choice:
        """One decision.

        Raises:
            PolicyError: there are no such weights.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._answer_all)
        question = Question(sight=sight, uniform=uniform, greedy=greedy, answer=loop.create_future())
        self._waiting.setdefault(policy, []).append(question)
        return await question.answer

    def _answer_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for policy, questions in waiting.items():
            waited_for = [question for question in questions if not question.answer.done()]
            try:
                for question, choice in zip(waited_for, self._choose(policy, waited_for), strict=True):
                    question.answer.set_result(choice)
            except Exception as error:  # whoever waits must hear of it
                for question in waited_for:
                    question.answer.set_exception(error)

    def needs(self, policy: PolicyRef) -> Needs:
        """What a network must be given besides what its seat sees.

        Raises:
            PolicyError: there are no such weights.
        """
        with _loading(policy):
            return self._actors.needs(policy)

    def _choose(self, policy: PolicyRef, questions: list[Question]) -> list[Choice]:
        sights = [question.sight for question in questions]
        with _loading(policy):
            decided = self._actors.act(
                policy,
                np.stack([sight.observation for sight in sights]),
                np.stack([sight.legal for sight in sights]),
                np.array([question.uniform for question in questions], np.float32),
                np.array([question.greedy for question in questions], np.bool_),
                np.stack([sight.state for sight in sights]),
                np.stack([sight.memory for sight in sights]),
            )
        columns = decided.actions.tolist(), decided.logps.tolist(), decided.values.tolist(), decided.memory
        return [Choice(*row) for row in zip(*columns, strict=True)]


class NetworkSeat:
    """One seat of one game of words that a network holds, and what it has done there if it learns."""

    def __init__(self, number: int, task: Task, spec: GameSpec, networks: Networks) -> None:
        """`spec` is the board's."""
        self._number = number
        self._who = task.seats[number]
        self._spec = spec
        self._networks = networks
        self._seed = derive_seed(task.seed, "act", task.attempt)
        self._memory: Floats | None = None
        self.trace = SeatTrace() if self._who.learns else None

    def look(self, position: WordsOnBoard) -> Sight:
        """What the network sees now. What it has earned since its last decision is credited to that.

        Raises:
            PolicyError: there are no such weights.
        """
        board, spec, needs = position.position, self._spec, self._networks.needs(self._who.policy)
        observation = np.zeros(spec.observation_shape, np.float32)
        board.observe(self._number, observation)
        legal = np.zeros(spec.actions, np.bool_)
        legal[list(board.legal(self._number))] = True
        state = np.zeros(needs.state, np.float32)
        if needs.state and self.trace is not None:
            write_state(board, spec, state)
        if spec.rewards_every_move:
            self.credit(read_returns(board, spec.players)[self._number])
        memory = np.zeros(needs.memory, np.float32) if self._memory is None else self._memory
        return Sight(observation=observation, legal=legal, state=state, memory=memory)

    async def decide(self, sight: Sight, ply: int) -> int:
        """Choose an action, by the network or by noise; a learning seat notes it."""
        where = np.array([ply], np.uint64), np.array([self._number], np.uint64)
        uniform = uniforms(np.array([self._seed], np.uint64), *where)[0]
        choice = await self._networks.decide(self._who.policy, sight, uniform, greedy=self._who.greedy)
        self._memory = choice.memory
        if self.trace is None:
            return choice.action
        share = self._networks.noise
        noise = noisy_action(share, sight.legal, seed=self._seed, ply=ply, seat=self._number) if share else None
        decision = sight.observation, sight.legal, choice.action, choice.logp, choice.value
        return self.trace.note(decision, noise, sight.state if len(sight.state) else None)

    def say(self, position: WordsOnBoard, action: int) -> str:
        """The words for an action."""
        return position.words(self._number, action)

    def credit(self, total: float) -> None:
        """Give what has been earned so far, and not been credited yet, to the last decision."""
        if self.trace is not None:
            self.trace.credit(total)


@contextmanager
def _loading(policy: PolicyRef) -> Iterator[None]:
    try:
        yield
    except (StorageError, OSError) as error:
        raise DamagedPolicy(f"{policy} cannot be loaded: {error}") from error
