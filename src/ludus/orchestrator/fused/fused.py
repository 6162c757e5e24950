"""Explore and train as one compiled program (pgx and small OpenSpiel games, small networks).

Experience never leaves the device. It is durable by recomputation: a checkpoint holds weights, optimizer, games in
flight and the random key, and everything after it is a pure function of those. The program runs in the loop's process
or, with `runtime: ray`, in a worker on a node. Evaluation games are played beside it by an explorer process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ludus.config import RunConfig
from ludus.errors import StorageError
from ludus.explore.runners.device_runner import Tally
from ludus.games import Game
from ludus.league import Pool
from ludus.orchestrator.context import RunContext
from ludus.orchestrator.fused.engine import DevicePart, Engine, FusedEngine, Tensors
from ludus.orchestrator.fused.hosted_engine import HostedEngine
from ludus.orchestrator.fused.opponent_blocks import UNIFORM_PLAYER, OpponentBlocks
from ludus.orchestrator.milestones import Milestones
from ludus.orchestrator.progress import Learner, UpdateReport
from ludus.orchestrator.run_store import RunStore
from ludus.orchestrator.workers import Workers
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyRef
from ludus.sources.protocol import Batch, OwnSource
from ludus.storage.checkpoints import Checkpoint
from ludus.train.health import checked


def is_hosted(config: RunConfig) -> bool:
    """Whether the program runs in a worker of its own."""
    return config.runtime.kind == "ray"


class FusedLearner(Learner, OwnSource):
    """A learner that is its own source: it plays what it trains on."""

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
        game = cast("Game", only)  # config.derive has made sure
        assert isinstance(context.shape, PolicyShape)  # noqa: S101
        steps, games = config.train.batch_steps or 0, config.explore.games_in_flight
        self._players = game.spec.players
        self._blocks = OpponentBlocks(config.league.opponents, games // config.train.shards, self._players)
        # Of a population, opponents change about as often as each of their games is played twice.
        self._draw_every = max(1, -(-2 * game.spec.max_length // (steps // games)))
        seat = None if pool.line_ups is None else pool.line_ups.seat
        part = DevicePart(self._blocks.sizes, seat, self._blocks.is_population)
        self._engine = self._make_engine(game, part, store)
        context.telemetry.meters.keep("tasks", "explore", "train", "policies", "league", "storage")

    def _make_engine(self, game: Game, part: DevicePart, store: RunStore) -> Engine:
        context = self._context
        if is_hosted(context.config):
            return HostedEngine(context, part, store, self._workers)
        start, shape = context.start, cast("PolicyShape", context.shape)

        def begin_with() -> Tensors:
            assert start is not None  # noqa: S101
            return PolicyStore(start.run.policies).load(start.policy).weights

        first = None if start is None else begin_with
        return FusedEngine(context.config, game, shape, part, store.policies, first)

    def begin(self, saved: Checkpoint | None) -> None:
        """Load a checkpoint, or make the first state."""
        self._engine.begin(saved)
        if saved is not None:
            self._blocks.load_state(saved.state["lanes"])
            if self._blocks.are_outdated(self._pool):
                self._draw_opponents()
            self._load_opponents()
        else:
            self.on_pool_change()

    def step(self, batch: Batch | None) -> UpdateReport:
        """One compiled update."""
        telemetry = self._context.telemetry
        if self._blocks.is_population and self._milestones.progress.update % self._draw_every == 0:
            self._draw_opponents()
            self._load_opponents()
        with telemetry.room("fused"):
            metrics, tally = self._engine.update(self._blocks.changed, self._milestones.share_done)
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
        return {"key": self._engine.write(staging), "lanes": self._blocks.state()}

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """The learner's weights."""
        return self._engine.weights()

    def on_pool_change(self) -> None:
        """Draw opponents anew; versions that are not published yet come with the next draw."""
        if not self._blocks.is_population:
            self._blocks.draw(self._pool, self._context.config.seed, self._milestones.progress.version)
        self._load_opponents()

    def _draw_opponents(self) -> None:
        self._blocks.draw(self._pool, self._context.config.seed, self._milestones.progress.update)

    def _load_opponents(self) -> None:
        try:
            self._engine.play_against(self._blocks.refs)
        except (StorageError, OSError):
            damaged = [ref for ref in self._blocks.refs if ref.name != UNIFORM_PLAYER and not self._repair(ref)]
        else:
            return
        if damaged:
            self._draw_opponents()  # they have left the pool
        self._engine.play_against(self._blocks.refs)

    def _mean_return(self, tally: Tally) -> float:
        """Of the seats that learn: all of them in games against itself, one in games against others."""
        others = float(tally.block_episodes.sum())
        seats = (float(tally.episodes) - others) * self._players + others
        return float(np.sum(tally.seat_returns) + np.sum(tally.block_returns)) / max(seats, 1.0)

    def _play_metrics(self, tally: Tally) -> dict[str, float]:
        episodes = max(float(tally.episodes), 1.0)
        mirror = max(episodes - float(tally.block_episodes.sum()), 1.0)
        values = {
            "explore/length": float(tally.plies) / episodes,
            "explore/draws": float(tally.draws) / mirror,
            "explore/reward": self._mean_return(tally),
        }
        for seat in range(self._players):
            values[f"explore/seat_{seat}/reward"] = float(tally.seat_returns[seat]) / mirror
            values[f"explore/seat_{seat}/wins"] = float(tally.seat_wins[seat]) / mirror
        for block, ref in enumerate(self._blocks.refs):
            if tally.block_episodes[block]:
                name = "past" if ref.name == self._context.config.policy.name else ref.name
                values[f"explore/against_{name}/score"] = float(tally.block_score[block] / tally.block_episodes[block])
        return values
