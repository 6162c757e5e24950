"""What a fused learner computes with: the compiled program, its state and its opponents, on this process's devices.

The loop has it in its own process, or in a worker on a node (`worker.py`). Invariant: the state after an update follows
from the state before it, the opponents, what begins anew and how far the run is, whatever process computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ludus.config import RunConfig
from ludus.explore.runners.device_runner import Tally
from ludus.games import Game
from ludus.games.registry import find_device_game
from ludus.orchestrator.fused.opponent_blocks import UNIFORM_PLAYER
from ludus.orchestrator.fused.program import FusedState, find_program
from ludus.policies import PolicyShape, PolicyStore, as_numpy
from ludus.records import PolicyRef, derive_seed
from ludus.storage.checkpoints import Checkpoint
from ludus.storage.tensors import save_tensors
from ludus.train.learner_state import LearnerState
from ludus.train.learners import begun_with

Tensors = Mapping[str, NDArray[Any]]
GAMES = "games"
"""The part of a state that holds the games in flight, beside those of the learner."""


class DevicePart(NamedTuple):
    """What an engine is made for, besides the config and the policy's shape."""

    blocks: tuple[int, ...]
    """Games of each opponent."""
    learner_seat: int | None
    is_population: bool
    """Whether opponents that were met will be met again soon, so that they are kept."""


class SavedState(Protocol):
    """A state as a checkpoint has it."""

    @property
    def state(self) -> Mapping[str, Any]:
        """With the random `key`."""

    def tensors(self, name: str) -> Tensors:
        """A part of it."""


class Engine(Protocol):
    """What a fused learner has its updates from."""

    def begin(self, saved: Checkpoint | None) -> None:
        """Make the first state, or go on from one. Called once, before anything else."""

    def play_against(self, refs: Sequence[PolicyRef]) -> None:
        """From now on these are the opponents, block by block. Raises StorageError if one cannot be loaded."""

    def update(self, restart: Sequence[bool], progress: float) -> tuple[Mapping[str, Any], Tally]:
        """One update; games begin anew first in the blocks of `restart`. Metrics and the tally, as NumPy arrays."""

    def write(self, folder: Path) -> list[int]:
        """Write the state after the newest update but for its random key, which is returned."""

    def weights(self) -> Tensors:
        """The learner's weights as of the last `write`."""


class FusedEngine:
    """For one thread."""

    _state: FusedState
    """From `begin` on."""

    def __init__(
        self,
        config: RunConfig,
        game: Game,
        shape: PolicyShape,
        part: DevicePart,
        store: PolicyStore,
        begin_with: Callable[[], Tensors] | None,
    ) -> None:
        """`begin_with` gives another run's weights, to begin with."""
        device_game, games = find_device_game(game), config.explore.games_in_flight
        self._config, self._part, self._store, self._begin_with = config, part, store, begin_with
        self._program = find_program(
            device_game,
            shape,
            config.train,
            games=games // config.train.shards,
            horizon=(config.train.batch_steps or 0) // games,
            blocks=part.blocks,
            learner_seat=part.learner_seat,
            noise=config.explore.noise,
        )
        self._loaded: dict[PolicyRef, Mapping[str, Any]] = {}
        self._opponents: tuple[Mapping[str, Any], ...] = ()

    def begin(self, saved: SavedState | None) -> None:
        """Make the first state, or go on from one."""
        self._state = self._fresh()
        if saved is not None:
            parts = {part: saved.tensors(part) for part in ("weights", "optimizer")}
            learner = self._program.learner.state_from_tensors(parts)
            games = _with_leaves(self._state.games, saved.tensors(GAMES))
            key = jax.random.wrap_key_data(jnp.array(saved.state["key"], jnp.uint32))
            self._state = FusedState(learner, games, key)

    def play_against(self, refs: Sequence[PolicyRef]) -> None:
        """From now on these are the opponents, block by block; the uniform player is a network of zeros.

        Raises:
            StorageError: one of them cannot be loaded.
        """
        wanted = dict.fromkeys([*(self._loaded if self._part.is_population else ()), *refs])
        self._loaded = {ref: self._loaded.get(ref) or self._load(ref) for ref in wanted}
        self._opponents = tuple(self._loaded[ref] for ref in refs)

    def update(self, restart: Sequence[bool], progress: float) -> tuple[Mapping[str, Any], Tally]:
        """One compiled update; games begin anew first in the blocks of `restart`. Metrics and the tally."""
        self._state, metrics, tally = self._program.update(
            self._state, self._opponents, np.array(restart, np.bool_), np.float32(progress)
        )
        fetched: tuple[Mapping[str, Any], Tally] = jax.device_get((metrics, tally))
        return fetched

    def write(self, folder: Path) -> list[int]:
        """Write the whole device state but for its random key, which is returned."""
        for part, tensors in self._program.learner.state_tensors(self._state.learner).items():
            save_tensors(folder / f"{part}.safetensors", tensors)
        save_tensors(folder / f"{GAMES}.safetensors", _leaves(self._state.games))
        return [int(word) for word in np.asarray(jax.random.key_data(self._state.key)).ravel()]

    def weights(self) -> Tensors:
        """The learner's weights, as they are published."""
        swa = self._config.train.swa
        if swa is not None and swa.publish:
            return self._program.learner.state_tensors(self._state.learner)["weights"]
        return as_numpy(self._state.learner.params)

    def _load(self, ref: PolicyRef) -> Mapping[str, Any]:
        if ref.name == UNIFORM_PLAYER:
            return {name: jnp.zeros_like(tensor) for name, tensor in self._state.learner.params.items()}
        loaded: Tensors = self._store.load(ref).weights
        return {name: jnp.asarray(tensor) for name, tensor in loaded.items()}

    def _fresh(self) -> FusedState:
        key = jax.random.key(derive_seed(self._config.seed, "fused") % 2**32)
        key_games, key = jax.random.split(key)
        games = self._program.start(key_games)
        state = FusedState(self._first_learner(), games, key)
        # The program donates its input, so no two leaves may share a buffer.
        return FusedState(*jax.tree.map(lambda leaf: leaf.copy(), tuple(state)))

    def _first_learner(self) -> LearnerState:
        """Fresh weights, or another run's with a fresh optimizer."""
        learner = self._program.learner
        state = learner.init(self._config.seed)
        if self._begin_with is None:
            return state
        weights = self._begin_with()
        return learner.state_from_tensors({**begun_with(learner.state_tensors(state), weights), "weights": weights})


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
