"""Plays many pgx games at once on the device: one `lax.scan` over policy and game step.

First come the mirror games, where the learner has every seat, then blocks of games for one opponent each, which has
one seat and its own weights. A game that ends starts again at once. Everything is a pure
function of (weights, state, key), so a rollout can be recomputed bit for bit from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ludus.explore.actors import choose

if TYPE_CHECKING:
    from ludus.policies.networks import PolicyNetwork

Params = Mapping[str, jax.Array]

MANY_BLOCKS = 4
"""From so many blocks of one size on, their networks are computed together."""


class DeviceGames(NamedTuple):
    """N games in flight. All leaves are `[N, ...]`."""

    state: Any
    """The pgx state."""
    order: jax.Array
    """`[N, P]`: the player who holds each seat."""
    returns: jax.Array
    """`[N, P]`: rewards so far, by player."""
    length: jax.Array


class Rollout(NamedTuple):
    """T steps of N games, time first: `[T, N, ...]`."""

    observation: jax.Array
    legal: jax.Array
    action: jax.Array
    logp: jax.Array
    value: jax.Array
    rewards: jax.Array
    """`[T, N, P]`, by player."""
    player: jax.Array
    done: jax.Array
    learns: jax.Array
    """Whether the learner made this move (opponents' moves are not trained on)."""


class Tally(NamedTuple):
    """Sums over the episodes that ended in a rollout."""

    episodes: jax.Array
    plies: jax.Array
    seat_returns: jax.Array
    """`[P]`: by order of play, mirror games."""
    seat_wins: jax.Array
    draws: jax.Array
    block_episodes: jax.Array
    """`[L]`"""
    block_score: jax.Array
    """`[L]`: learner's score against the block's opponent; a draw counts half."""
    block_returns: jax.Array
    """`[L]`: what the learner got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRunner:
    """A vectorised runner for one pgx environment."""

    env: Any
    seat_order: Callable[[Any], jax.Array]
    """Players by seat at the start of a game, `[P]`."""
    network: PolicyNetwork
    games: int
    horizon: int
    blocks: tuple[int, ...] = ()
    """Games in each block; they sit behind the mirror games."""
    learner_seat: int | None = None
    """OpponentBlocks: the seat that the learner always has. Default: either, in equally many games."""
    noise: float = 0.0
    """Share of moves played uniformly at random and not trained on, so that rare positions are seen."""

    @property
    def players(self) -> int:
        """Seats of the game."""
        return int(self.env.num_players)

    def start(self, key: jax.Array) -> DeviceGames:
        """Begin all games; the key is consumed."""
        state = jax.vmap(self.env.init)(jax.random.split(key, self.games))
        return DeviceGames(
            state=state,
            order=jax.vmap(self.seat_order)(state).astype(jnp.int32),
            returns=jnp.zeros((self.games, self.players), jnp.float32),
            length=jnp.zeros(self.games, jnp.int32),
        )

    def rollout(
        self, params: Params, opponents: Sequence[Params], games: DeviceGames, key: jax.Array, *, restart: jax.Array
    ) -> tuple[DeviceGames, Rollout, Tally]:
        """Play `horizon` plies in every game.

        Args:
            params: the learner's weights.
            opponents: one set of weights per block.
            games: where to go on from.
            key: consumed.
            restart: `[L]`, blocks whose games begin anew because their opponent changed.
        """
        key_restart, key_steps = jax.random.split(key)
        games = self._restart_blocks(games, key_restart, restart)

        def step(carry: tuple[DeviceGames, Tally], step_key: jax.Array) -> tuple[tuple[DeviceGames, Tally], Rollout]:
            games, tally = carry
            games, ended, row = self._step(params, opponents, games, step_key)
            return (games, self._count(tally, ended, row)), row

        (games, tally), rollout = jax.lax.scan(
            step, (games, self._empty_tally()), jax.random.split(key_steps, self.horizon)
        )
        return games, rollout, tally

    # -- one step --------------------------------------------------------------------------------------------------

    def _step(
        self, params: Params, opponents: Sequence[Params], games: DeviceGames, key: jax.Array
    ) -> tuple[DeviceGames, DeviceGames, Rollout]:
        key_act, key_step, key_start = jax.random.split(key, 3)
        state = games.state
        player = state.current_player.astype(jnp.int32)
        logits, value = self.network.apply(params, state.observation)
        behaviour, learns = self._behaviour(opponents, games, logits, player, key_step)
        uniform = jax.random.uniform(key_act, (self.games,))
        action, _ = choose(behaviour, state.legal_action_mask, uniform, jnp.zeros(self.games, bool))
        logp = jax.nn.log_softmax(jnp.where(state.legal_action_mask, logits, -1e9))
        after = jax.vmap(self.env.step)(state, action, jax.random.split(key_step, self.games))
        row = Rollout(
            observation=state.observation,
            legal=state.legal_action_mask,
            action=action,
            logp=jnp.take_along_axis(logp, action[:, None], axis=-1)[:, 0],
            value=value,
            rewards=after.rewards.astype(jnp.float32),
            player=player,
            done=after.terminated | after.truncated,
            learns=learns,
        )
        ended = DeviceGames(
            state=after, order=games.order, returns=games.returns + row.rewards, length=games.length + 1
        )
        return _select(row.done, self.start(key_start), ended), ended, row

    def _behaviour(
        self, opponents: Sequence[Params], games: DeviceGames, logits: jax.Array, player: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The logits that choose the moves, `[N, A]`, and whose moves are the learner's, `[N]`."""
        end = self.games - sum(self.blocks)
        parts, owned = [logits[:end]], [jnp.ones(end, bool)]
        others = self._opponents_logits(opponents, games.state.observation)
        for (start, size), other in zip(self._block_bounds(), others, strict=True):
            rows = slice(start, start + size)
            theirs = player[rows] == self._opponent(games.order[rows])
            parts.append(jnp.where(theirs[:, None], other, logits[rows]))
            owned.append(~theirs)
        behaviour, learns = jnp.concatenate(parts), jnp.concatenate(owned)
        if self.noise > 0:
            noisy = jax.random.uniform(jax.random.fold_in(key, 1), (self.games,)) < self.noise
            behaviour, learns = jnp.where(noisy[:, None], 0.0, behaviour), learns & ~noisy
        return behaviour, learns

    def _opponents_logits(self, opponents: Sequence[Params], observation: jax.Array) -> Sequence[jax.Array]:
        """What the opponent of each block would play there, `[n, A]`; many blocks of one size as one computation."""
        if len(self.blocks) < MANY_BLOCKS or len(set(self.blocks)) > 1:
            bounds = zip(self._block_bounds(), opponents, strict=True)
            return [self.network.apply(other, observation[start : start + size])[0] for (start, size), other in bounds]
        stacked = jax.tree.map(lambda *tensors: jnp.stack(tensors), *opponents)
        seen = observation[self.games - sum(self.blocks) :].reshape(len(self.blocks), -1, *observation.shape[1:])
        logits, _ = jax.vmap(self.network.apply)(stacked, seen)
        return list(logits)

    def _opponent(self, order: jax.Array) -> jax.Array:
        """The player that is the opponent in each game of a block, `[n]`; `order` are the players by seat, `[n, P]`."""
        if self.learner_seat is None:
            return jnp.arange(len(order)) % self.players
        return order[:, 1 - self.learner_seat]

    def _restart_blocks(self, games: DeviceGames, key: jax.Array, restart: jax.Array) -> DeviceGames:
        if not self.blocks:
            return games
        mirror = jnp.zeros(self.games - sum(self.blocks), bool)
        flags = [jnp.broadcast_to(restart[block], (size,)) for block, size in enumerate(self.blocks)]
        return _select(jnp.concatenate([mirror, *flags]), self.start(key), games)

    # -- counting --------------------------------------------------------------------------------------------------

    def _empty_tally(self) -> Tally:
        zero, blocks = jnp.zeros((), jnp.float32), jnp.zeros(len(self.blocks), jnp.float32)
        seats = jnp.zeros(self.players, jnp.float32)
        return Tally(zero, zero, seats, seats, zero, blocks, blocks, blocks)

    def _count(self, tally: Tally, ended: DeviceGames, row: Rollout) -> Tally:
        done = row.done.astype(jnp.float32)
        mirror = self.games - sum(self.blocks)
        by_seat = jnp.take_along_axis(ended.returns, ended.order, axis=1)[:mirror]
        best = by_seat.max(axis=1, keepdims=True)
        is_draw = (by_seat == best).all(axis=1)
        won = (by_seat == best) & ~is_draw[:, None]
        weight = done[:mirror, None]
        block_episodes, block_score, block_returns = [], [], []
        for start, size in self._block_bounds():
            rows = slice(start, start + size)
            opponent = self._opponent(ended.order[rows])
            theirs = jnp.take_along_axis(ended.returns[rows], opponent[:, None], axis=1)[:, 0]
            ours = (ended.returns[rows].sum(axis=1) - theirs) / max(self.players - 1, 1)
            score = 0.5 + 0.5 * jnp.sign(ours - theirs)
            block_episodes.append(done[rows].sum())
            block_score.append((score * done[rows]).sum())
            block_returns.append((ours * done[rows]).sum())
        return Tally(
            episodes=tally.episodes + done.sum(),
            plies=tally.plies + (ended.length * done).sum(),
            seat_returns=tally.seat_returns + (by_seat * weight).sum(axis=0),
            seat_wins=tally.seat_wins + (won * weight).sum(axis=0),
            draws=tally.draws + (is_draw * done[:mirror]).sum(),
            block_episodes=tally.block_episodes + jnp.array(block_episodes, jnp.float32),
            block_score=tally.block_score + jnp.array(block_score, jnp.float32),
            block_returns=tally.block_returns + jnp.array(block_returns, jnp.float32),
        )

    def _block_bounds(self) -> list[tuple[int, int]]:
        starts, end = [], self.games - sum(self.blocks)
        for size in self.blocks:
            starts.append((end, size))
            end += size
        return starts


def _select(chosen: jax.Array, yes: DeviceGames, no: DeviceGames) -> DeviceGames:
    """Take whole games from `yes` where chosen, from `no` elsewhere."""

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(chosen.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

    return DeviceGames(*jax.tree.map(pick, tuple(yes), tuple(no)))
