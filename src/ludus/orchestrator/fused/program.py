"""The compiled program of the fused topology: roll out, credit, learn, as one pure function.

Invariant: a program follows from what it is asked for and holds nothing that changes; runs of one process that ask for
the same (the learners of a population) share one, and it is compiled once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ludus.config import TrainConfig
from ludus.explore.runners.device_runner import DeviceGames, DeviceRunner, Rollout, Tally
from ludus.games.device_game import DeviceGame
from ludus.games.tabulated_env import TabulatedGame
from ludus.policies import PolicyShape
from ludus.train.device_advantages import gae_on_device
from ludus.train.jax_learner import JaxLearner, LearnerState

PROGRAMS_KEPT = 4

Opponents = tuple[Mapping[str, Any], ...]


class FusedState(NamedTuple):
    """All that changes from update to update, on the device."""

    learner: LearnerState
    games: DeviceGames
    key: jax.Array


class FusedProgram:
    """`update(state, opponents, restart, progress)`; the state is donated."""

    def __init__(self, game: DeviceGame, train: TrainConfig, runner: DeviceRunner) -> None:
        self.runner = runner
        self.learner = JaxLearner(runner.network, train)
        self.start = jax.jit(runner.start)
        self.update = jax.jit(self._update, donate_argnums=(0,))
        self._advantage = train.algorithm.advantage
        self._alternates = game.spec.players == 2 and game.spec.is_zero_sum and self._may_alternate(game)

    def _may_alternate(self, game: DeviceGame) -> bool:
        """Whether the other side's estimate stands for one's own with its sign turned, or the config says so."""
        if self._advantage is not None and self._advantage.perspective is not None:
            return self._advantage.perspective == "alternate"
        # What the other side estimates without one's cards says nothing of what they are worth.
        hides = game.spec.is_simultaneous or not game.spec.has_perfect_information
        return not (isinstance(game, TabulatedGame) and hides)

    def _update(
        self, state: FusedState, opponents: Opponents, restart: jax.Array, progress: jax.Array
    ) -> tuple[FusedState, dict[str, jax.Array], Tally]:
        key, key_play, key_learn = jax.random.split(state.key, 3)
        games, rollout, tally = self.runner.rollout(
            state.learner.params, opponents, state.games, key_play, restart=restart
        )
        batch = self._credit(state.learner, games, rollout)
        learner, metrics = self.learner.update(state.learner, batch, key_learn, progress)
        return FusedState(learner, games, key), metrics, tally

    def _credit(self, learner: LearnerState, games: DeviceGames, rollout: Rollout) -> dict[str, jax.Array]:
        """Turn a rollout `[T, N]` into a flat batch `[T * N]` with advantages and targets."""
        _, last_value = self.runner.network.apply(learner.params, games.state.observation)
        advantage, target = gae_on_device(
            rewards=rollout.rewards,
            value=rollout.value,
            seat=rollout.player,
            done=rollout.done,
            last_value=last_value,
            last_seat=games.state.current_player.astype(jnp.int32),
            config=self._advantage,
            alternate=self._alternates,
        )
        columns = {
            "observation": rollout.observation,
            "legal": rollout.legal,
            "action": rollout.action,
            "logp": rollout.logp,
            "advantage": advantage,
            "target": target,
            "value": rollout.value,
            "weight": rollout.learns.astype(jnp.float32),
        }
        return {name: column.reshape((-1, *column.shape[2:])) for name, column in columns.items()}


_programs: OrderedDict[str, FusedProgram] = OrderedDict()
_lock = Lock()


def find_program(game: DeviceGame, shape: PolicyShape, train: TrainConfig, **rollout: Any) -> FusedProgram:
    """The program for a game and a network; `rollout` is how it is played (see `DeviceRunner`)."""
    wanted = repr((game.spec, shape, train.model_dump_json(exclude={"steps", "stop"}), sorted(rollout.items())))
    with _lock:
        program = _programs.pop(wanted, None)
        if program is None:
            runner = DeviceRunner(env=game.env, seat_order=game.seat_order, network=shape.build(), **rollout)
            program = FusedProgram(game, train, runner)
        _programs[wanted] = program
        while len(_programs) > PROGRAMS_KEPT:
            _programs.popitem(last=False)
    return program
