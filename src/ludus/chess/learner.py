"""The learner of chess networks: minibatches of a loader's tensors, each part by the same compiled functions.

Invariants:

- A minibatch whose loss or gradient is not finite leaves weights and optimizer as they were, and is counted.
- Gradient accumulation gives the gradient of the whole minibatch: each term is divided by the rows of the minibatch
  that have its target.
- Nothing is drawn: the same state and batch give the same bits, also after a resume.

With several devices (`train.trainers`) each minibatch is spread over them; weights are on all of them, and an update
is that of one device to rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding

from ludus.chess.losses import ChessTerm, Targets, build_terms, wdl_target
from ludus.chess.networks import ChessOutputs
from ludus.config import TrainConfig
from ludus.errors import ConfigError, TrainError
from ludus.policies.networks import PolicyNetwork
from ludus.train.health import NOT_FINITE, checked
from ludus.train.learner_state import LearnerState, state_from_tensors, state_tensors
from ludus.train.learners import Parts
from ludus.train.optimizers import build_optimizer, decay_mask, learning_rate
from ludus.train.swa import averaged, published, start_average, unpublished

Metrics = dict[str, jax.Array]
_OWN_METRICS = ("loss", "grad_norm", "learning_rate")
FROZEN = (".mean", ".variance")
"""Statistics of a frozen batch norm: they stay as they are."""


class ChessBatch(NamedTuple):
    """Tensors of B positions, float32, as a loader gives them."""

    planes: Any
    """`[B, 112, 8, 8]`."""
    policy: Any
    """`[B, 1858]`, -1 where a move is illegal."""
    values: Any
    """`[B, 6, 3]`, NaN where unknown."""


class _Carry(NamedTuple):
    vector: jax.Array
    optimizer: Any
    sums: Metrics
    taken: jax.Array
    skipped: jax.Array
    in_a_row: jax.Array
    flags: Metrics
    """Of every metric: 1 if it was not finite in the newest minibatch that was skipped."""


class _Compiled(NamedTuple):
    """The functions of an update, each compiled for one shape."""

    begin: Any
    count: Any
    gradient: Any
    add: Any
    take: Any
    end: Any
    measure: Any


class ChessLearner:
    """Trains a chess network by a resolved `TrainConfig` on the tensors of a loader. Keeps nothing between updates."""

    def __init__(self, network: PolicyNetwork, train: TrainConfig, *, devices: list[Any] | None = None) -> None:
        if train.algorithm.objective is None:
            raise ConfigError("train.algorithm: not resolved; objective must be given")
        if train.minibatch % train.accumulate:
            raise ConfigError(f"train.accumulate: {train.accumulate} does not divide train.minibatch")
        self.network, self._train = network, train
        self._terms = build_terms(train.algorithm.objective)
        shapes = network.shapes()
        mask = decay_mask(train.optimizer, shapes)
        frozen = [np.full(np.prod(shapes[name], dtype=int), name.endswith(FROZEN)) for name in sorted(shapes)]
        self._moves = ~np.concatenate(frozen)
        self._unravel = ravel_pytree({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})[1]
        self._optimizer = build_optimizer(train.optimizer, mask)
        self._sharding = _spread(devices or jax.devices()[:1], train.minibatch // train.accumulate)
        self._compiled = _Compiled(
            begin=jax.jit(self._start),
            count=jax.jit(self._counts),
            gradient=jax.jit(self._gradient_of),
            add=jax.jit(lambda one, two: jax.tree.map(jnp.add, one, two)),
            take=jax.jit(self._taken),
            end=jax.jit(self._conclude),
            measure=jax.jit(self._validate),
        )

    def init(self, seed: int) -> LearnerState:
        """Fresh weights and optimizer."""
        params = self.network.init(seed)
        zero = jnp.zeros((), jnp.int32)
        average = None if self._train.swa is None else start_average(params)
        return LearnerState(params, self._optimizer.init(ravel_pytree(params)[0]), zero, zero, average)

    def train_batch(
        self, state: LearnerState, rows: Sequence[Any], seed: int = 0, progress: float = 0.0
    ) -> tuple[LearnerState, dict[str, float]]:
        """One update: every minibatch of a `ChessBatch`, or of its three tensors, `epochs` times."""
        batch = ChessBatch(*rows)
        count, minibatch = len(batch.planes), self._train.minibatch
        if count == 0 or count % minibatch:
            raise TrainError(f"a batch of {count} positions is not a whole number of minibatches of {minibatch}")
        shape = (count // minibatch, self._train.accumulate, minibatch // self._train.accumulate)
        # The loader's memory, cut by its shape alone: nothing is copied on the way to a CPU device.
        cut = ChessBatch(*(np.asarray(part).reshape(shape + np.shape(part)[1:]) for part in batch))
        placed = cut if self._sharding is None else jax.device_put(cut, self._sharding)
        carry, share = self._compiled.begin(state), np.float32(progress)
        for _ in range(self._train.epochs):
            for number in range(shape[0]):
                carry = self._step(carry, ChessBatch(*(tensor[number] for tensor in placed)), share, state.steps)
        state, metrics = self._compiled.end(carry, state)
        floats = {name: float(value) for name, value in jax.device_get(metrics).items()} | {"rows": float(count)}
        return state, checked(floats, self._train, lambda: self._what_is_not_finite(batch, floats))

    def validate(self, state: LearnerState, rows: Sequence[Any]) -> dict[str, float]:
        """How the network does on positions that it is not trained on.

        Every term of the objective; `policy_top1`: how often its first move is the target's; `wdl_accuracy` and
        `wdl_brier`: of the main value head against the game's result. With a published mean, the mean is measured.
        """
        params = state.params
        if self._train.swa is not None and self._train.swa.publish and state.average is not None:
            params = state.average.mean
        return {name: float(x) for name, x in jax.device_get(self._compiled.measure(params, ChessBatch(*rows))).items()}

    def state_tensors(self, state: LearnerState) -> Parts:
        """The state in two parts, `weights` and `optimizer`; `weights` are what is published."""
        tensors = state_tensors(state)
        return published(tensors) if self._train.swa is not None and self._train.swa.publish else tensors

    def state_from_tensors(self, tensors: Parts) -> LearnerState:
        """The state that `state_tensors` wrote, bit for bit; refuses tensors of another network or optimizer."""
        return state_from_tensors(unpublished(tensors), self.init(0))

    # -- one update ------------------------------------------------------------------------------------------------

    def _start(self, state: LearnerState) -> _Carry:
        vector, _ = ravel_pytree(state.params)
        zeros = {name: jnp.zeros(()) for name in (*(term.name for term in self._terms), *_OWN_METRICS)}
        return _Carry(vector, state.optimizer, zeros, jnp.int32(0), jnp.int32(0), state.skipped, dict(zeros))

    def _step(self, carry: _Carry, minibatch: ChessBatch, progress: np.float32, steps: jax.Array) -> _Carry:
        """One optimizer step. XLA runs convolutions inside its own loops many times slower, so the loops are here."""
        counts = self._compiled.count(minibatch)
        total = None
        for place in range(self._train.accumulate):
            part = ChessBatch(*(tensor[place] for tensor in minibatch))
            found = self._compiled.gradient(carry.vector, part, counts, progress)
            total = found if total is None else self._compiled.add(total, found)
        after: _Carry = self._compiled.take(carry, *(total or ()), progress, steps)
        return after

    def _conclude(self, carry: _Carry, state: LearnerState) -> tuple[LearnerState, Metrics]:
        params, average = self._unravel(carry.vector), state.average
        if self._train.swa is not None and average is not None:
            average = averaged(self._train.swa, average, params)
        count = jnp.maximum(carry.taken, 1).astype(jnp.float32)
        metrics = {name: total / count for name, total in carry.sums.items()}
        metrics |= {"optimizer_steps": carry.taken, "skipped": carry.skipped, "skipped_in_a_row": carry.in_a_row}
        metrics |= {f"{NOT_FINITE}{name}": flag for name, flag in carry.flags.items()}
        return LearnerState(params, carry.optimizer, state.steps + carry.taken, carry.in_a_row, average), metrics

    def _taken(
        self, carry: _Carry, gradient: jax.Array, metrics: Metrics, progress: jax.Array, steps: jax.Array
    ) -> _Carry:
        rate = learning_rate(self._train.optimizer, progress, steps + carry.taken)
        norm = jnp.sqrt(jnp.sum(gradient * gradient))
        metrics = {**metrics, "grad_norm": norm, "learning_rate": rate}
        limit = self._train.optimizer.max_grad_norm

        def take() -> _Carry:
            scaled = gradient if limit is None else gradient * (limit / jnp.maximum(norm, limit))
            direction, optimizer = self._optimizer.update(scaled, carry.optimizer, carry.vector)
            if not self._moves.all():
                direction = direction * jnp.asarray(self._moves, jnp.float32)
            sums = {name: carry.sums[name] + metrics[name] for name in carry.sums}
            vector = carry.vector - rate * direction
            return _Carry(vector, optimizer, sums, carry.taken + 1, carry.skipped, jnp.int32(0), carry.flags)

        def skip() -> _Carry:
            flags = {name: (~jnp.isfinite(metrics[name])).astype(jnp.float32) for name in carry.flags}
            return carry._replace(skipped=carry.skipped + 1, in_a_row=carry.in_a_row + 1, flags=flags)

        after: _Carry = lax.cond(jnp.isfinite(metrics["loss"]) & jnp.isfinite(norm), take, skip)
        return after

    def _gradient_of(
        self, vector: jax.Array, part: ChessBatch, counts: Mapping[str, jax.Array], progress: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        def loss(vector: jax.Array) -> tuple[jax.Array, Metrics]:
            return self._loss(self._unravel(vector), part, counts, progress)

        gradient, metrics = jax.grad(loss, has_aux=True)(vector)
        return gradient, metrics

    def _what_is_not_finite(self, batch: ChessBatch, metrics: Mapping[str, float]) -> str:
        """Why steps were skipped: the position, or the terms of the objective, that were not finite."""
        failed = [str(term) for term in self._terms if metrics[f"{NOT_FINITE}{term.name}"]]
        what = f"{' and '.join(failed)} {'is' if len(failed) == 1 else 'are'}" if failed else "the gradient is"
        others = "the positions are" if failed else "every loss is"
        blame = f"{what} not finite, although {others}: lower train.optimizer.learning_rate"
        return _bad_input(batch) or blame

    def _counts(self, minibatch: ChessBatch) -> dict[str, jax.Array]:
        """For each term, how many positions of a minibatch have its target, at least 1."""
        targets = Targets(*(x.reshape((-1, *x.shape[2:])) for x in (minibatch.policy, minibatch.values)))
        found = {term.name: term.known(targets) for term in self._terms}
        return {name: jnp.maximum(jnp.sum(is_there), 1).astype(jnp.float32) for name, is_there in found.items()}

    def _loss(
        self, params: Mapping[str, jax.Array], part: ChessBatch, counts: Mapping[str, jax.Array], progress: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        outputs = self.network.module(params).outputs(jnp.moveaxis(part.planes, 1, -1))
        loss: jax.Array = jnp.float32(0.0)
        metrics: Metrics = {}
        for term in self._terms:
            value = _mean(term, outputs, Targets(part.policy, part.values), counts[term.name])
            metrics[term.name] = value
            loss = loss + term.weight_at(progress) * value
        return loss, {**metrics, "loss": loss}

    def _validate(self, params: Mapping[str, jax.Array], batch: ChessBatch) -> Metrics:
        outputs = self.network.module(params).outputs(jnp.moveaxis(batch.planes, 1, -1))
        targets = Targets(batch.policy, batch.values)
        metrics: Metrics = {}
        for term in self._terms:
            count = jnp.maximum(jnp.sum(term.known(targets)), 1).astype(jnp.float32)
            metrics[term.name] = _mean(term, outputs, targets, count)
        heads: Any = self.network.config
        legal = jnp.where(batch.policy >= 0, outputs.policy[heads.heads.main_policy], -jnp.inf)
        agrees = jnp.argmax(legal, axis=-1) == jnp.argmax(batch.policy, axis=-1)
        has_policy = jnp.sum(jnp.maximum(batch.policy, 0.0), axis=-1) > 0
        wdl, is_there = wdl_target(targets, "result")
        odds = jax.nn.softmax(outputs.value[heads.heads.main_value])
        right = jnp.argmax(odds, axis=-1) == jnp.argmax(wdl, axis=-1)
        metrics["policy_top1"] = _share(agrees, has_policy)
        metrics["wdl_accuracy"] = _share(right, is_there)
        metrics["wdl_brier"] = _share(jnp.sum((odds - wdl) ** 2, axis=-1), is_there)
        return metrics


def _mean(term: ChessTerm, outputs: ChessOutputs, targets: Targets, count: jax.Array) -> jax.Array:
    rows = term(outputs, targets)
    return jnp.sum(jnp.where(rows.is_there, rows.loss, 0.0)) / count


def _share(x: jax.Array, mask: jax.Array) -> jax.Array:
    return jnp.sum(jnp.where(mask, x.astype(jnp.float32), 0.0)) / jnp.maximum(jnp.sum(mask), 1)


def find_devices(count: int) -> list[Any]:
    """So many devices: GPUs where there are some, cores of the CPU otherwise."""
    config: Any = jax.config
    if config.jax_num_cpu_devices < count:
        # JAX may have been imported before this process had its environment. Too late where devices are in use.
        with contextlib.suppress(RuntimeError):
            config.update("jax_num_cpu_devices", count)
    devices = jax.devices()
    if len(devices) < count:
        more = " (JAX_NUM_CPU_DEVICES)" if devices[0].platform == "cpu" else ""
        raise ConfigError(f"train.trainers: {count} need as many devices, and there are {len(devices)}{more}")
    return devices[:count]


def _spread(devices: list[Any], rows: int) -> NamedSharding | None:
    """How a cut batch lies on several devices: each has its share of every part's rows."""
    if len(devices) == 1:
        return None
    if rows % len(devices):
        raise ConfigError(
            f"train.minibatch: {rows} positions at a time cannot be shared evenly by {len(devices)} devices"
        )
    cut: Any = jax.sharding.PartitionSpec
    return NamedSharding(Mesh(np.array(devices), ("data",)), cut(None, None, "data"))


def _bad_input(batch: ChessBatch) -> str:
    """The first position whose numbers are not finite; else nothing. NaN is a target that is not known, and masked."""
    count = len(batch.planes)
    planes = ~np.isfinite(np.asarray(batch.planes)).reshape(count, -1).all(1)
    policy = np.isinf(np.asarray(batch.policy)).reshape(count, -1).any(1)
    for what, bad in (("planes", planes), ("policy targets", policy)):
        if bad.any():
            return f"the {what} of position {np.flatnonzero(bad)[0]} of the batch are not finite"
    return ""
