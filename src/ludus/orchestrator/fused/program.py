"""The compiled program of the fused topology: roll out, credit, learn, as one pure function.

Invariant: a program follows from what it is asked for and holds nothing that changes; runs of one process that ask for
the same (the learners of a population) share one, and it is compiled once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ludus.config import TrainConfig
from ludus.errors import ConfigError
from ludus.explore.runners.device_runner import DeviceGames, DeviceRunner, Rollout, Tally
from ludus.games.protocol import DeviceGame
from ludus.games.tabulated import TabulatedGame
from ludus.policies import PolicyShape
from ludus.train.device_advantages import gae_on_device
from ludus.train.jax_learner import JaxLearner
from ludus.train.jax_shards import AXIS, add_up, share_of
from ludus.train.learner_state import LearnerState

PROGRAMS_KEPT = 4

_ALL: Any = PartitionSpec()  # type: ignore[no-untyped-call]
"""Of what every shard holds."""
_EACH: Any = PartitionSpec(AXIS)  # type: ignore[no-untyped-call]
"""Of what each shard has a part of."""

Opponents = tuple[Mapping[str, Any], ...]


class FusedState(NamedTuple):
    """All that changes from update to update, on the device."""

    learner: LearnerState
    games: DeviceGames
    key: jax.Array


class FusedProgram:
    """`update(state, opponents, restart, progress)`; the state is donated.

    With several shards each device plays and learns from its own games (`runner` and `learner` are those of one shard),
    and all of them hold the same weights after every update. The games of a shard stand together.
    """

    def __init__(self, game: DeviceGame, train: TrainConfig, runner: DeviceRunner) -> None:
        self.runner = runner
        shards = train.shards
        self.learner = JaxLearner(runner.network, share_of(train), is_sharded=shards > 1)
        self._mesh = _mesh(shards) if shards > 1 else None
        state = FusedState(_ALL, _EACH, _ALL)
        self.start = self._compiled(self._start, (_ALL,), _EACH)
        self.update = self._compiled(self._update, (state, _ALL, _ALL, _ALL), (state, _ALL, _ALL), donate_argnums=(0,))
        self._advantage = train.algorithm.advantage
        self._alternates = game.spec.players == 2 and game.spec.is_zero_sum and self._may_alternate(game)

    def _may_alternate(self, game: DeviceGame) -> bool:
        """Whether the other side's estimate stands for one's own with its sign turned, or the config says so."""
        if self._advantage is not None and self._advantage.perspective is not None:
            return self._advantage.perspective == "alternate"
        # What the other side estimates without one's cards says nothing of what they are worth.
        hides = game.spec.is_simultaneous or not game.spec.has_perfect_information
        return not (isinstance(game, TabulatedGame) and hides)

    def _compiled(self, body: Callable[..., Any], inputs: Any, outputs: Any, **options: Any) -> Callable[..., Any]:
        """The program, the same on every shard's device."""
        if self._mesh is None:
            return jax.jit(body, **options)
        on_each = jax.shard_map(body, mesh=self._mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
        # Without these, arrays that come from elsewhere would have it compiled again.
        places = jax.tree.map(partial(NamedSharding, self._mesh), inputs)
        return jax.jit(on_each, in_shardings=places, **options)

    def _own(self, key: jax.Array) -> jax.Array:
        """A key of this shard's own."""
        return key if self._mesh is None else jax.random.fold_in(key, lax.axis_index(AXIS))

    def _start(self, key: jax.Array) -> DeviceGames:
        return self.runner.start(self._own(key))

    def _update(
        self, state: FusedState, opponents: Opponents, restart: jax.Array, progress: jax.Array
    ) -> tuple[FusedState, dict[str, jax.Array], Tally]:
        key, key_play, key_learn = jax.random.split(state.key, 3)
        games, rollout, tally = self.runner.rollout(
            state.learner.params, opponents, state.games, self._own(key_play), restart=restart
        )
        batch = self._credit(state.learner, games, rollout)
        learner, metrics = self.learner.update(state.learner, batch, self._own(key_learn), progress)
        tally = tally if self._mesh is None else add_up(tally)
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


def _mesh(shards: int) -> Mesh:
    """A device for each shard.

    Raises:
        ConfigError: this process has too few.
    """
    devices = jax.devices()
    if len(devices) < shards:
        raise ConfigError(
            f"train.shards: {shards} shards need as many devices, and this process has {len(devices)}; write "
            f"train.shards: {len(devices)} or, on a CPU, set JAX_NUM_CPU_DEVICES={shards} before JAX is imported"
        )
    return Mesh(np.array(devices[:shards]), (AXIS,))


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
