"""Decisions of networks in games on boards, those of one policy version in one batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ludus.errors import DamagedPolicy, EnvError, StorageError, rollout_error
from ludus.explore.runners.slot import Decision, Slot, noisy_action
from ludus.games.answers import wrong_answer
from ludus.games.protocol import Position, write_state
from ludus.records import PolicyRef
from ludus.records.uniforms import uniforms
from ludus.runtime import Pulse
from ludus.runtime.pulse import TASK

if TYPE_CHECKING:
    from ludus.explore.actors import NetworkActors

Row = tuple[Slot, int]
"""A game, and the seat that is to decide in it."""

MASKS_KEPT = 4096


class NetworkDecisions:
    """Asks networks; a game that fails meanwhile has the error in its slot."""

    def __init__(self, actors: NetworkActors, *, noise: float, pulse: Pulse) -> None:
        """`noise` is the share of decisions of learning seats that are random."""
        self._actors = actors
        self._noise = noise
        self._pulse = pulse
        self._masks: dict[tuple[int, ...], NDArray[np.bool_]] = {}

    def decide(self, ref: PolicyRef, rows: list[Row]) -> None:
        """Put the decisions of a policy version into its games' slots; learning seats note them."""
        spec = rows[0][0].game.spec
        observation = np.zeros((len(rows), *spec.observation_shape), np.float32)
        masks = self._look(rows, observation, spec.actions)
        uniform = uniforms(
            np.array([slot.seed for slot, _ in rows], np.uint64),
            np.array([slot.ply for slot, _ in rows], np.uint64),
            np.array([seat for _, seat in rows], np.uint64),
        )
        greedy = np.array([slot.seats[seat].who.greedy for slot, seat in rows], np.bool_)
        legal = np.concatenate(masks).reshape(len(rows), spec.actions)
        try:
            needs = self._actors.needs(ref)
            states = self._look_at_all(rows, needs.state) if needs.state else None
            memory = _memories(rows, needs.memory) if needs.memory else None
            decided = self._actors.act(ref, observation, legal, uniform, greedy, states, memory)
        except (StorageError, OSError) as error:
            for slot, _ in rows:
                slot.error = DamagedPolicy(f"{ref} cannot be loaded: {error}")
            return
        if needs.memory:
            for (slot, seat), remembered in zip(rows, decided.memory, strict=True):
                slot.seats[seat].memory = remembered
        columns = (decided.actions.tolist(), decided.logps.tolist(), decided.values.tolist())
        self._take(rows, zip(observation, masks, *columns, strict=True), states)

    def _look(self, rows: list[Row], observation: NDArray[np.float32], actions: int) -> list[NDArray[np.bool_]]:
        """Let each row's game write its observation; returns what is legal, row by row."""
        words, masks, nothing = self._pulse.words, [], self._mask((0,), actions)
        for (slot, seat), seen in zip(rows, observation, strict=True):
            words[TASK] = slot.task.id
            try:
                slot.position.observe(seat, seen)
                masks.append(self._legal(slot.position, seat, actions))
            except Exception as error:  # whatever a game may raise
                slot.error = rollout_error(EnvError, slot.task.game, error)
                masks.append(nothing)
        return masks

    def _legal(self, position: Position, seat: int, size: int) -> NDArray[np.bool_]:
        """What a seat may do, as a mask."""
        given = position.legal(seat)
        try:
            return self._mask(tuple(given), size)
        except (TypeError, IndexError) as error:
            raise wrong_answer(position.legal, given, f"actions from 0 to {size - 1}") from error

    def _look_at_all(self, rows: list[Row], size: int) -> NDArray[np.float32]:
        """Let each learning row's game write its whole state; nobody asks for the values of the others."""
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

    def _take(self, rows: list[Row], decisions: Iterable[Decision], states: NDArray[np.float32] | None) -> None:
        """Take a network's decisions, or random ones in their place; learning seats note them."""
        for number, ((slot, seat), decision) in enumerate(zip(rows, decisions, strict=True)):
            if slot.error is not None:
                continue
            action, trace = decision[2], slot.traces.get(seat)
            if trace is not None:
                try:
                    if slot.game.spec.rewards_every_move:
                        slot.collect(seat)
                except Exception as error:  # whatever a game may raise
                    slot.error = rollout_error(EnvError, slot.task.game, error)
                    continue
                noise = None
                if self._noise:
                    noise = noisy_action(self._noise, decision[1], seed=slot.seed, ply=slot.ply, seat=seat)
                action = trace.note(decision, noise, None if states is None else states[number])
            slot.moves[seat] = action


def _memories(rows: list[Row], size: int) -> NDArray[np.float32]:
    """What each row's seat remembers, `[n, M]`; zeros at its first decision."""
    nothing = np.zeros(size, np.float32)
    remembered = (slot.seats[seat].memory for slot, seat in rows)
    return np.stack([nothing if memory is None else memory for memory in remembered])
