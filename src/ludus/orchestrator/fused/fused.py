"""Explore and train in one process, as one compiled program (pgx and small OpenSpiel games, small networks).

Experience never leaves the device. It is durable by recomputation: a checkpoint holds weights, optimizer, games in
flight and the random key, and everything after it is a pure function of those. Evaluation games are played beside it
by an explorer process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ludus.config import OpponentConfig
from ludus.errors import ConfigError, StorageError
from ludus.explore.runners.device_runner import Tally
from ludus.games import Game
from ludus.games.registry import find_device_game
from ludus.league import Pool, make_sampler
from ludus.league.matchmaking.matchmaker import normalise
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.fused.program import FusedState, find_program
from ludus.orchestrator.milestones import Milestones
from ludus.orchestrator.progress import Learner, UpdateReport
from ludus.orchestrator.run_store import RunStore
from ludus.orchestrator.workers import Workers
from ludus.policies import PolicyShape, PolicyStore, as_numpy
from ludus.records import PolicyName, PolicyRef, derive_seed
from ludus.sources.protocol import Batch, OwnSource
from ludus.storage.checkpoints import Checkpoint
from ludus.storage.tensors import save_tensors
from ludus.train.health import checked
from ludus.train.learner_state import LearnerState
from ludus.train.learners import begun_with

UNIFORM_PLAYER = "random"
POPULATION_LANES = 8
"""Opponents of a population that are met at the same time."""

Weights = Mapping[str, Any]


class OpponentBlocks:
    """Opponents on the device, in blocks of games in which one seat is held by one opponent for a while.

    Each kind of `league.opponents` other than `mirror` gets a block. Its opponent changes when the pool does; its games
    then begin anew, so no game ever changes opponents midway. The kind `population` gets several, whose opponents
    are drawn again and again, so that over time each is met as often as the population says.
    """

    def __init__(self, choices: tuple[OpponentConfig, ...], games: int, players: int) -> None:
        total = sum(choice.weight for choice in choices)
        self._choices = [choice for choice in choices if choice.kind != "mirror"]
        if self._choices and players != 2:
            raise ConfigError(
                "league.opponents: the fused topology has opponents other than mirror for two players only"
            )
        for choice in self._choices:
            unplayable = [name for name in choice.players if name != UNIFORM_PLAYER]
            if unplayable:
                raise ConfigError(
                    f"league.opponents: {', '.join(unplayable)} cannot play on the device; use topology: split"
                )
        blocks = [
            size
            for choice in self._choices
            for size in _sizes(games * choice.weight / total, POPULATION_LANES if choice.kind == "population" else 1)
        ]
        self.sizes = tuple(blocks)
        if sum(self.sizes) > games:
            raise ConfigError(
                f"explore.games_in_flight: {games} games are too few for {len(self.sizes)} kinds of opponents"
            )
        self.refs: list[PolicyRef] = [PolicyRef(name=PolicyName(UNIFORM_PLAYER))] * len(self.sizes)
        self.changed = [True] * len(self.sizes)
        self._loaded: dict[PolicyRef, Weights] = {}

    @property
    def is_population(self) -> bool:
        """Whether a population says who is met."""
        return any(choice.kind == "population" for choice in self._choices)

    def are_outdated(self, pool: Pool) -> bool:
        """Whether somebody plays here whom the population has not given to answer any more."""
        return pool.line_ups is not None and not {*self.refs} <= {*pool.line_ups.policies}

    def draw(self, pool: Pool, seed: int, number: int) -> None:
        """Choose each block's opponent anew. While there is no candidate, the uniform player fills in."""
        drawn: list[PolicyRef] = []
        for choice in self._choices:
            block = len(drawn)
            weighed = make_sampler(choice).weigh(pool)
            uniform = derive_seed(seed, "lane", block, number) / 2**63
            if choice.kind == "population":
                drawn += _spread(normalise(weighed), uniform, POPULATION_LANES)
                continue
            known = (UNIFORM_PLAYER, pool.learner.ref.name)
            candidates = [(ref, weight) for ref, weight in weighed if ref.name in known]
            drawn += _spread(normalise(candidates), uniform, 1) or [PolicyRef(name=PolicyName(UNIFORM_PLAYER))]
        for block, chosen in enumerate(drawn):
            self.changed[block] = self.changed[block] or chosen != self.refs[block]
            self.refs[block] = chosen

    def weights(self, store: PolicyStore, learner: Weights) -> tuple[Weights, ...]:
        """Weights by block; the uniform player is a network of zeros."""
        self._loaded = {ref: self._loaded.get(ref) or self._load(ref, store, learner) for ref in self._wanted()}
        return tuple(self._loaded[ref] for ref in self.refs)

    def _wanted(self) -> Iterable[PolicyRef]:
        """Those at play, and those of a population that were: they will be drawn again soon."""
        return dict.fromkeys([*(self._loaded if self.is_population else ()), *self.refs])

    @staticmethod
    def _load(ref: PolicyRef, store: PolicyStore, learner: Weights) -> Weights:
        if ref.name == UNIFORM_PLAYER:
            return {name: jnp.zeros_like(tensor) for name, tensor in learner.items()}
        loaded: Mapping[str, NDArray[Any]] = store.load(ref).weights
        return {name: jnp.asarray(tensor) for name, tensor in loaded.items()}

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"refs": [str(ref) for ref in self.refs], "changed": list(self.changed)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a checkpoint; games in flight go on against the opponents they had."""
        self.refs = [PolicyRef.parse(text) for text in state["refs"]]
        self.changed = [bool(flag) for flag in state["changed"]]


def _sizes(games: float, blocks: int) -> list[int]:
    """Games of each block: even, so that both seats are held equally often."""
    return [max(2, round(games / blocks / 2) * 2)] * blocks


def _spread(distribution: Iterable[tuple[PolicyRef, float]], uniform: float, count: int) -> list[PolicyRef]:
    """`count` draws that are as evenly spread over the distribution as can be; none from an empty one."""
    chosen: list[PolicyRef] = []
    upper, last = 0.0, None
    for ref, probability in distribution:
        upper, last = upper + probability, ref
        while len(chosen) < count and (len(chosen) + uniform) / count < upper:
            chosen.append(ref)
    return chosen + ([last] * (count - len(chosen)) if last is not None else [])


class FusedLearner(Learner, OwnSource):
    """A learner that is its own source: it plays what it trains on."""

    _state: FusedState
    """From `begin` on."""

    def __init__(
        self,
        context: RunContext,
        store: RunStore,
        pool: Pool,
        workers: Workers,
        milestones: Milestones,
        repair: Callable[[PolicyRef], bool],
    ) -> None:
        config = context.config
        self._context = context
        self.shape = context.shape
        self._policies = store.policies
        self._pool = pool
        self._workers = workers
        self._milestones = milestones
        self._repair = repair
        (only,) = context.games.values()
        game = find_device_game(cast("Game", only))  # config.derive has made sure
        assert isinstance(context.shape, PolicyShape)  # noqa: S101
        steps, games = config.train.batch_steps or 0, config.explore.games_in_flight
        shard = games // config.train.shards
        self._blocks = OpponentBlocks(config.league.opponents, shard, game.spec.players)
        line_ups = pool.line_ups
        self._program = find_program(
            game,
            context.shape,
            config.train,
            games=shard,
            horizon=steps // games,
            blocks=self._blocks.sizes,
            learner_seat=None if line_ups is None else line_ups.seat,
            noise=config.explore.noise,
        )
        # Of a population, opponents change about as often as each of their games is played twice.
        self._draw_every = max(1, -(-2 * game.spec.max_length // self._program.runner.horizon))
        self._opponents: tuple[Mapping[str, Any], ...] = ()
        context.telemetry.meters.keep("tasks", "explore", "train", "policies", "league", "storage")

    def begin(self, saved: Checkpoint | None) -> None:
        """Load a checkpoint, or make the first state."""
        self._state = self._fresh()
        if saved is not None:
            self._state = self._restored(saved)
            self._blocks.load_state(saved.state["lanes"])
            if self._blocks.are_outdated(self._pool):
                self._draw_opponents()
            self._opponents = self._load_opponents()
        else:
            self.on_pool_change()

    def step(self, batch: Batch | None) -> UpdateReport:
        """One compiled update."""
        telemetry, before = self._context.telemetry, self._state
        if self._blocks.is_population and self._milestones.progress.update % self._draw_every == 0:
            self._draw_opponents()
            self._opponents = self._load_opponents()
        progress = np.float32(self._milestones.share_done)
        restart = np.array(self._blocks.changed, np.bool_)
        with telemetry.room("fused"):
            self._state, metrics, tally = self._program.update(before, self._opponents, restart, progress)
            metrics, tally = jax.device_get((metrics, tally))
        self._blocks.changed = [False] * len(self._blocks.sizes)
        telemetry.meters.add("explore", int(tally.episodes))
        telemetry.meters.add("train", 1)
        self._workers.serve(0.0)
        metrics = checked(metrics, self._context.config.train)
        steps, rated = self._context.config.train.batch_steps or 0, float(tally.block_episodes.sum())
        return UpdateReport(
            steps=steps,
            episodes=int(tally.episodes),
            rated_games=int(rated),
            score=float(tally.block_score.sum() / max(rated, 1.0)),
            mean_return=float(tally.block_returns.sum() / max(rated, 1.0)),
            metrics={**{f"train/{k}": float(v) for k, v in metrics.items()}, **self._play_metrics(tally)},
        )

    def save(self, staging: Path) -> dict[str, Any]:
        """Write the whole device state."""
        state = self._state
        for part, tensors in self._program.learner.state_tensors(state.learner).items():
            save_tensors(staging / f"{part}.safetensors", tensors)
        save_tensors(staging / "games.safetensors", _leaves(state.games))
        key = [int(word) for word in np.asarray(jax.random.key_data(state.key)).ravel()]
        return {"lanes": self._blocks.state(), "key": key}

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The learner's weights."""
        return as_numpy(self._state.learner.params)

    def on_pool_change(self) -> None:
        """Draw opponents anew; versions that are not published yet come with the next draw."""
        if not self._blocks.is_population:
            self._blocks.draw(self._pool, self._context.config.seed, self._milestones.progress.version)
        self._opponents = self._load_opponents()

    def _draw_opponents(self) -> None:
        self._blocks.draw(self._pool, self._context.config.seed, self._milestones.progress.update)

    def _fresh(self) -> FusedState:
        seed = self._context.config.seed
        key = jax.random.key(derive_seed(seed, "fused") % 2**32)
        key_games, key = jax.random.split(key)
        games = self._program.start(key_games)
        state = FusedState(self._first_learner(), games, key)
        # The program donates its input, so no two leaves may share a buffer.
        return FusedState(*jax.tree.map(lambda leaf: leaf.copy(), tuple(state)))

    def _first_learner(self) -> LearnerState:
        """Fresh weights, or another run's with a fresh optimizer."""
        state, start = self._program.learner.init(self._context.config.seed), self._context.start
        if start is None:
            return state
        weights = PolicyStore(start.run.policies).load(start.policy).weights
        return self._program.learner.state_from_tensors(
            {**begun_with(self._program.learner.state_tensors(state), weights), "weights": weights}
        )

    def _restored(self, saved: Checkpoint) -> FusedState:
        learner = self._program.learner.state_from_tensors(
            {part: saved.tensors(part) for part in ("weights", "optimizer")}
        )
        games = _with_leaves(self._state.games, saved.tensors("games"))
        key = jax.random.wrap_key_data(jnp.array(saved.state["key"], jnp.uint32))
        return FusedState(learner, games, key)

    def _load_opponents(self) -> tuple[Mapping[str, Any], ...]:
        params = self._state.learner.params
        try:
            return self._blocks.weights(self._policies, params)
        except (StorageError, OSError):
            damaged = [ref for ref in self._blocks.refs if ref.name != UNIFORM_PLAYER and not self._repair(ref)]
        if damaged:
            self._draw_opponents()  # they have left the pool
        return self._blocks.weights(self._policies, params)

    def _mean_return(self, tally: Tally) -> float:
        """Of the seats that learn: all of them in games against itself, one in games against others."""
        others = float(tally.block_episodes.sum())
        seats = (float(tally.episodes) - others) * self._program.runner.players + others
        return float(np.sum(tally.seat_returns) + np.sum(tally.block_returns)) / max(seats, 1.0)

    def _play_metrics(self, tally: Tally) -> dict[str, float]:
        episodes = max(float(tally.episodes), 1.0)
        mirror = max(episodes - float(tally.block_episodes.sum()), 1.0)
        values = {
            "explore/length": float(tally.plies) / episodes,
            "explore/draws": float(tally.draws) / mirror,
            "explore/reward": self._mean_return(tally),
        }
        for seat in range(self._program.runner.players):
            values[f"explore/seat_{seat}/reward"] = float(tally.seat_returns[seat]) / mirror
            values[f"explore/seat_{seat}/wins"] = float(tally.seat_wins[seat]) / mirror
        for block, ref in enumerate(self._blocks.refs):
            if tally.block_episodes[block]:
                name = "past" if ref.name == self._context.config.policy.name else ref.name
                values[f"explore/against_{name}/score"] = float(tally.block_score[block] / tally.block_episodes[block])
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
