"""Plays many games at once on the host, one ply of every game per step.

Network decisions are batched across games by policy version; fixed players decide one by one. Any mix of policies may
share a game. A game that raises, breaks its protocol or exceeds its deadline costs its own episode and frees its slot.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ludus.errors import EnvError, PolicyError, RolloutError, StorageError, TimeoutExceeded, boundary, rollout_error
from ludus.explore.noise import noisy_action
from ludus.explore.players.fixed import Player
from ludus.explore.runners.assembly import assemble
from ludus.explore.runners.slot import Decision, Slot
from ludus.games.protocol import Game, write_state
from ludus.records import Episode, EpisodeBatch, PolicyRef, Task, episode_id
from ludus.records.uniforms import uniforms
from ludus.runtime import NO_TASK, Pulse
from ludus.runtime.pulse import TASK

if TYPE_CHECKING:
    from ludus.explore.actors import Decided, Needs


class Actors(Protocol):
    """Whoever decides for network policies."""

    def act(
        self,
        ref: PolicyRef,
        observation: NDArray[np.float32],
        legal: NDArray[np.bool_],
        uniform: NDArray[np.float32],
        greedy: NDArray[np.bool_],
        state: NDArray[np.float32] | None = None,
        memory: NDArray[np.float32] | None = None,
    ) -> Decided:
        """Decide for n rows at once."""
        ...

    def needs(self, ref: PolicyRef) -> Needs:
        """What the policy must be given besides what its seats see."""
        ...


Row = tuple[Slot, int]

MASKS_KEPT = 4096


class HostRunner:
    """Keeps up to `slots` games in flight. Call `submit`, then `step` until `is_idle`, and `harvest` in between."""

    trouble = ""
    """Networks are in this process; there is nothing that could be out of reach."""

    def __init__(
        self,
        *,
        run: str,
        games: Callable[[str], Game],
        actors: Actors,
        players: Callable[[str, Game], Player | None],
        slots: int,
        deadline_s: float = math.inf,
        max_length: int | None = None,
        noise: float = 0.0,
        pulse: Pulse | None = None,
    ) -> None:
        """`players(name, game)` gives the fixed player of that name, or None when it is a network policy."""
        self._run = run
        self._games = games
        self._actors = actors
        self._players = players
        self.slots = slots
        self._deadline_s = deadline_s
        self._max_length = max_length
        self._noise = noise
        self._pulse = pulse or Pulse()
        self._waiting: deque[Task] = deque()
        self._slots: list[Slot] = []
        self._finished: list[tuple[Slot | None, Episode]] = []
        self._masks: dict[tuple[int, ...], NDArray[np.bool_]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to play."""
        return not self._slots and not self._waiting

    @property
    def finished_episodes(self) -> int:
        """Episodes that the next harvest would return."""
        return len(self._finished)

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks; each starts as soon as a slot is free."""
        self._waiting.extend(tasks)

    def step(self) -> None:
        """Play one ply in every game in flight."""
        self._fill_slots()
        now = time.monotonic()
        ready = [slot for slot in self._slots if self._is_playable(slot, now)]
        for ref, rows in self._ask_fixed_players(ready).items():
            self._ask_network(ref, rows)
        self._make_moves(ready)
        self._forget_closed()
        self._pulse.tick()

    def take_counts(self) -> dict[str, float]:
        """Nobody here asks an endpoint."""
        return {}

    def harvest(self) -> EpisodeBatch:
        """Hand over what has finished since the last call."""
        finished, self._finished = self._finished, []
        return assemble(finished)

    # -- one step, part by part ------------------------------------------------------------------------------------

    def _fill_slots(self) -> None:
        while self._waiting and len(self._slots) < self.slots:
            task = self._waiting.popleft()
            episode = episode_id(self._run, task.id, task.attempt)
            self._mark(task.id)
            try:
                with boundary(EnvError, f"{task.game} could not start"):
                    game = self._games(task.game)
                    players = tuple(self._players(seat.policy.name, game) for seat in task.seats)
                    self._slots.append(Slot(task, game, episode, players))
            except RolloutError as error:
                self._finished.append((None, Episode.failed(episode, task, f"{type(error).__name__}: {error}")))
        self._mark(NO_TASK)

    def _is_playable(self, slot: Slot, now: float) -> bool:
        """Close games that are over, too long or too slow; the rest play on."""
        if not slot.acting:
            self._close(slot)
        elif now - slot.started > self._deadline_s:
            self._close(slot, error=f"{TimeoutExceeded.__name__}: the episode took longer than {self._deadline_s:g} s")
        elif self._max_length is not None and slot.ply >= self._max_length:
            self._close(slot, truncated=True)
        else:
            return True
        return False

    def _ask_fixed_players(self, ready: Iterable[Slot]) -> dict[PolicyRef, list[Row]]:
        """Let fixed players decide; returns the decisions that networks have to make, by policy version."""
        network_rows: dict[PolicyRef, list[Row]] = {}
        for slot in ready:
            for seat in slot.acting:
                player = slot.players[seat]
                if player is None:
                    network_rows.setdefault(slot.seats[seat].policy, []).append((slot, seat))
                else:
                    self._ask_player(slot, seat, player)
        return network_rows

    def _ask_player(self, slot: Slot, seat: int, player: Player) -> None:
        self._mark(slot.task.id)
        try:
            with boundary(PolicyError, slot.seats[seat].policy.name):
                slot.moves[seat] = int(player.choose(slot.position, seat, slot.generator(seat)))
                self._pulse.tick()
        except RolloutError as error:
            slot.error = error

    def _ask_network(self, ref: PolicyRef, rows: list[Row]) -> None:
        spec = rows[0][0].game.spec
        observation = np.zeros((len(rows), *spec.observation_shape), np.float32)
        masks = self._look(rows, observation, spec.actions)
        uniform = uniforms(
            np.array([slot.seed for slot, _ in rows], np.uint64),
            np.array([slot.ply for slot, _ in rows], np.uint64),
            np.array([seat for _, seat in rows], np.uint64),
        )
        greedy = np.array([slot.seats[seat].greedy for slot, seat in rows], np.bool_)
        legal = np.concatenate(masks).reshape(len(rows), spec.actions)
        try:
            needs = self._actors.needs(ref)
            states = self._look_at_all(rows, needs.state) if needs.state else None
            memory = _memories(rows, needs.memory) if needs.memory else None
            decided = self._actors.act(ref, observation, legal, uniform, greedy, states, memory)
        except StorageError as error:
            for slot, _ in rows:
                slot.error = PolicyError(f"{ref} cannot be loaded: {error}")
            return
        if needs.memory:
            for (slot, seat), remembered in zip(rows, decided.memory, strict=True):
                slot.memories[seat] = remembered
        columns = (decided.actions.tolist(), decided.logps.tolist(), decided.values.tolist())
        self._decide(rows, zip(observation, masks, *columns, strict=True), states)

    def _look(self, rows: list[Row], observation: NDArray[np.float32], actions: int) -> list[NDArray[np.bool_]]:
        """Let each row's game write its observation; returns what is legal, row by row."""
        words, masks, nothing = self._pulse.words, [], self._mask((0,), actions)
        for (slot, seat), seen in zip(rows, observation, strict=True):
            words[TASK] = slot.task.id
            try:
                slot.position.observe(seat, seen)
                masks.append(self._mask(tuple(slot.position.legal(seat)), actions))
            except Exception as error:  # whatever a game may raise
                slot.error = rollout_error(EnvError, slot.task.game, error)
                masks.append(nothing)
        return masks

    def _look_at_all(self, rows: list[Row], size: int) -> NDArray[np.float32]:
        """Let each learning row's game write its whole state; nobody asks what the others are worth."""
        states = np.zeros((len(rows), size), np.float32)
        written: tuple[Slot, NDArray[np.float32]] | None = None
        for (slot, seat), state in zip(rows, states, strict=True):
            if slot.error is not None or seat not in slot.traces:
                continue
            if written is not None and written[0] is slot:
                state[:] = written[1]
                continue
            self._pulse.words[TASK] = slot.task.id
            try:
                write_state(slot.position, slot.game.spec, state)
                written = slot, state
            except Exception as error:  # whatever a game may raise
                slot.error = rollout_error(EnvError, slot.task.game, error)
        return states

    def _mask(self, actions: tuple[int, ...], size: int) -> NDArray[np.bool_]:
        """Legal actions as a mask. Most games have few distinct sets, and looking one up is cheaper than making it."""
        mask = self._masks.get(actions)
        if mask is None or len(mask) != size:
            mask = np.zeros(size, np.bool_)
            mask[list(actions)] = True
            if len(self._masks) < MASKS_KEPT:
                self._masks[actions] = mask
        return mask

    def _decide(
        self, rows: list[Row], decisions: Iterable[Decision], states: NDArray[np.float32] | None = None
    ) -> None:
        """Take a network's decisions, or random ones in their place; learning seats note them."""
        for number, ((slot, seat), decision) in enumerate(zip(rows, decisions, strict=True)):
            if slot.error is not None:
                continue
            trace = slot.traces.get(seat)
            if trace is not None:
                try:
                    if slot.game.spec.rewards_every_move:
                        slot.collect(seat)
                except Exception as error:  # whatever a game may raise
                    slot.error = rollout_error(EnvError, slot.task.game, error)
                    continue
                action = self._noisy_action(slot, seat, decision[1]) if self._noise else None
                if action is not None:
                    trace.noise.append(len(trace.decisions))
                    decision = (*decision[:2], action, 0.0, decision[4])
                trace.decisions.append(decision)
                if states is not None:
                    trace.states.append(states[number])
            slot.moves[seat] = decision[2]

    def _noisy_action(self, slot: Slot, seat: int, legal: NDArray[np.bool_]) -> int | None:
        return noisy_action(self._noise, legal, seed=slot.seed, ply=slot.ply, seat=seat)

    def _make_moves(self, slots: Iterable[Slot]) -> None:
        words = self._pulse.words
        for slot in slots:
            if slot.error is None:
                words[TASK] = slot.task.id
                try:
                    slot.play()
                    if not slot.acting:
                        self._close(slot)
                except Exception as error:  # whatever a game may raise
                    slot.error = rollout_error(EnvError, slot.task.game, error)
            if slot.error is not None:
                self._close(slot, error=f"{type(slot.error).__name__}: {slot.error}")

    def _close(self, slot: Slot, *, truncated: bool = False, error: str = "") -> None:
        self._mark(slot.task.id)
        try:
            with boundary(EnvError, slot.task.game):
                episode = slot.finish(truncated=truncated, error=error)
        except RolloutError as broken:
            error = f"{type(broken).__name__}: {broken}"
            episode = slot.finish(error=error)
        slot.is_closed = True
        self._finished.append((None if error else slot, episode))

    def _forget_closed(self) -> None:
        self._slots = [slot for slot in self._slots if not slot.is_closed]

    def _mark(self, task: int) -> None:
        """Say whose code runs next, so that a hang can be blamed on it."""
        self._pulse.words[TASK] = task


def _memories(rows: list[Row], size: int) -> NDArray[np.float32]:
    """What each row's seat remembers, `[n, M]`; zeros at its first decision."""
    nothing = np.zeros(size, np.float32)
    return np.stack([slot.memories.get(seat, nothing) for slot, seat in rows])
