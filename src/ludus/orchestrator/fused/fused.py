"""Explore and train in one process, as one compiled program (pgx and small OpenSpiel games, small networks).

Experience never leaves the device. It is durable by recomputation: a checkpoint holds weights, optimizer, games in
flight and the random key, and everything after it is a pure function of those. Evaluation games are played beside it
by an explorer process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ludus.explore.runners.device_runner import Tally
from ludus.games import Game
from ludus.games.device_game import find_device_game
from ludus.orchestrator.dispatcher import Dispatcher
from ludus.orchestrator.fused.opponent_blocks import OpponentBlocks
from ludus.orchestrator.fused.program import FusedState, find_program
from ludus.orchestrator.progress import UpdateReport
from ludus.orchestrator.rollout_sink import RolloutSink
from ludus.orchestrator.rooms import Rooms
from ludus.policies import PolicyShape, PolicyStore, as_numpy
from ludus.records import PolicyRef, Task, derive_seed
from ludus.runtime import Stop
from ludus.storage.checkpoints import Checkpoint
from ludus.storage.tensors import save_tensors
from ludus.train.jax_learner import LearnerState

EVALUATION_SLOTS = 64


class Fused:
    """The fused topology."""

    publish_interval: int | None = None
    is_exhausted = False

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        config = rooms.config
        (self._game_key,) = rooms.games
        game = find_device_game(cast("Game", rooms.games[self._game_key]))  # config.derive has made sure
        assert isinstance(rooms.shape, PolicyShape)  # noqa: S101
        steps, games = config.train.batch_steps or 0, config.explore.games_in_flight
        shard = games // config.train.shards
        self._lanes = OpponentBlocks(config.league.opponents, shard, game.spec.players)
        line_ups = rooms.pool.line_ups
        program = find_program(
            game,
            rooms.shape,
            config.train,
            games=shard,
            horizon=steps // games,
            lanes=self._lanes.sizes,
            learner_seat=None if line_ups is None else line_ups.seat,
            noise=config.explore.noise,
        )
        self._program, self._runner, self._learner = program, program.runner, program.learner
        # Of a population, opponents change about as often as each of their games is played twice.
        self._draw_every = max(1, -(-2 * game.spec.max_length // self._runner.horizon))
        self._state: FusedState | None = None
        self._opponents: tuple[Mapping[str, Any], ...] = ()
        self._explorers: Dispatcher | None = None
        self._intake = RolloutSink(rooms)
        rooms.telemetry.meters.keep("tasks", "explore", "train", "policies", "league", "storage")

    # -- what the loop asks for ------------------------------------------------------------------------------------

    def begin(self, saved: Checkpoint | None) -> None:
        """Load a checkpoint, or make the first state."""
        self._state = self._fresh()
        if saved is not None:
            self._state = self._restored(saved)
            self._lanes.load_state(saved.state["lanes"])
            if self._lanes.are_outdated(self._rooms.pool):
                self._draw_opponents()
            self._opponents = self._load_opponents()
        else:
            self.refresh_opponents()

    def advance(self) -> UpdateReport:
        """One compiled update."""
        rooms, before = self._rooms, self._current
        if self._lanes.is_population and rooms.progress.update % self._draw_every == 0:
            self._draw_opponents()
            self._opponents = self._load_opponents()
        progress = np.float32(rooms.progress.steps / rooms.config.train.steps)
        restart = np.array(self._lanes.changed, np.bool_)
        with rooms.telemetry.room("fused"):
            self._state, metrics, tally = self._program.update(before, self._opponents, restart, progress)
            metrics, tally = jax.device_get((metrics, tally))
        self._lanes.changed = [False] * len(self._lanes.sizes)
        rooms.telemetry.meters.add("explore", int(tally.episodes))
        rooms.telemetry.meters.add("train", 1)
        self.tend(0.0)
        self._learner.check_health(metrics)
        steps, rated = rooms.config.train.batch_steps or 0, float(tally.lane_episodes.sum())
        return UpdateReport(
            steps=steps,
            episodes=int(tally.episodes),
            rated_games=int(rated),
            score=float(tally.lane_score.sum() / max(rated, 1.0)),
            mean_return=float(tally.lane_returns.sum() / max(rated, 1.0)),
            metrics={**{f"train/{k}": float(v) for k, v in metrics.items()}, **self._play_metrics(tally)},
        )

    def tend(self, timeout_s: float) -> None:
        """Take what the evaluator brings."""
        if self._explorers is not None:
            for event in self._rooms.supervisor.poll(timeout_s):
                for delivery in self._explorers.absorb(event):
                    self._intake.take(delivery)

    def save(self, staging: Path) -> dict[str, Any]:
        """Write the whole device state."""
        state = self._current
        for part, tensors in self._learner.state_tensors(state.learner).items():
            save_tensors(staging / f"{part}.safetensors", tensors)
        save_tensors(staging / "games.safetensors", _leaves(state.games))
        key = [int(word) for word in np.asarray(jax.random.key_data(state.key)).ravel()]
        return {"lanes": self._lanes.state(), "key": key}

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The learner's weights."""
        return as_numpy(self._current.learner.params)

    def use_version(self, ref: PolicyRef) -> None:
        """Nothing to do: the program plays with the weights it trains."""

    def refresh_opponents(self) -> None:
        """Draw opponents anew; versions that are not published yet come with the next draw."""
        if not self._lanes.is_population:
            self._lanes.draw(self._rooms.pool, self._rooms.config.seed, self._rooms.progress.version)
        self._opponents = self._load_opponents()

    def _draw_opponents(self) -> None:
        self._lanes.draw(self._rooms.pool, self._rooms.config.seed, self._rooms.progress.update)

    def submit_evaluation(self, tasks: Sequence[Task]) -> None:
        """Hand evaluation games to the explorer process, which starts with the first of them."""
        if not tasks:
            return
        if self._explorers is None:
            self._explorers = Dispatcher(self._rooms, workers=1, slots=EVALUATION_SLOTS)
        self._explorers.submit(tasks)

    def drain(self, is_stopping: Callable[[], bool]) -> bool:
        """Nothing is played ahead."""
        return True

    def close(self) -> None:
        """End the explorer process."""
        self._rooms.supervisor.stop(Stop() if self._explorers is not None else None)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def _current(self) -> FusedState:
        if self._state is None:
            raise RuntimeError("begin() has not been called")
        return self._state

    def _fresh(self) -> FusedState:
        seed = self._rooms.config.seed
        key = jax.random.key(derive_seed(seed, "fused") % 2**32)
        key_games, key = jax.random.split(key)
        games = self._program.start(key_games)
        state = FusedState(self._first_learner(), games, key)
        # The program donates its input, so no two leaves may share a buffer.
        return FusedState(*jax.tree.map(lambda leaf: leaf.copy(), tuple(state)))

    def _first_learner(self) -> LearnerState:
        """Fresh weights, or another run's with a fresh optimizer."""
        state, start = self._learner.init(self._rooms.config.seed), self._rooms.start
        if start is None:
            return state
        weights = PolicyStore(start.run.policies).load(start.policy).weights
        return self._learner.state_from_tensors({**self._learner.state_tensors(state), "weights": weights})

    def _restored(self, saved: Checkpoint) -> FusedState:
        learner = self._learner.state_from_tensors({part: saved.tensors(part) for part in ("weights", "optimizer")})
        games = _with_leaves(self._current.games, saved.tensors("games"))
        key = jax.random.wrap_key_data(jnp.array(saved.state["key"], jnp.uint32))
        return FusedState(learner, games, key)

    def _load_opponents(self) -> tuple[Mapping[str, Any], ...]:
        return self._lanes.weights(self._rooms.policies, self._current.learner.params)

    def _play_metrics(self, tally: Tally) -> dict[str, float]:
        episodes = max(float(tally.episodes), 1.0)
        mirror = max(episodes - float(tally.lane_episodes.sum()), 1.0)
        values = {
            "explore/length": float(tally.plies) / episodes,
            "explore/draws": float(tally.draws) / mirror,
        }
        for seat in range(self._runner.players):
            values[f"explore/seat_{seat}/reward"] = float(tally.seat_returns[seat]) / mirror
            values[f"explore/seat_{seat}/wins"] = float(tally.seat_wins[seat]) / mirror
        for lane, ref in enumerate(self._lanes.refs):
            if tally.lane_episodes[lane]:
                name = "past" if ref.name == self._rooms.config.policy.name else ref.name
                values[f"explore/against_{name}/score"] = float(tally.lane_score[lane] / tally.lane_episodes[lane])
        return values


def _leaves(tree: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a tree by path; typed keys as their raw words."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(_raw(leaf)) for path, leaf in paths}


def _with_leaves(template: Any, tensors: Mapping[str, NDArray[Any]]) -> Any:
    """The same tree with other arrays."""
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    leaves = []
    for path, leaf in paths:
        tensor = jnp.asarray(tensors[jax.tree_util.keystr(path)])
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        leaves.append(jax.random.wrap_key_data(tensor) if is_key else tensor)
    return jax.tree_util.tree_unflatten(structure, leaves)


def _raw(leaf: jax.Array) -> jax.Array:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
