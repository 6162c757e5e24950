"""The JAX learner: epochs of shuffled minibatches over one batch, as one pure function.

`update` may be traced into a larger program (the fused topology) or called through `train_batch` (the split one). Its
invariants:

- A row with weight 0 counts for nothing: weights and optimizer do not depend on where or how many such rows are, bit
  for bit.
- A minibatch whose loss or gradient is not finite leaves weights and optimizer as they were, and is counted.
- Gradient accumulation gives the gradient of the whole minibatch, because parts are normalised by the whole.

A row is a decision or, for a network with a memory, a stretch of decisions (`stretches.py`).

Weights and gradients are one vector inside the loops, which spares XLA a kernel per tensor. A conditional skips bad
steps: a select over the weights is compiled to a branch per element and takes nine times as long as Adam itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from ludus.config.learn import TrainConfig
from ludus.errors import ConfigError, TrainError
from ludus.policies.networks import PolicyNetwork
from ludus.policies.value_scale import counted_in, scale_of, trained, untrained
from ludus.records import Experiences
from ludus.train.advantages import compute_for_usual
from ludus.train.arrays import masked_log_softmax, take_last
from ludus.train.batches import Batch, bucket, from_zero, pad
from ludus.train.learner_metrics import Metrics, as_floats, batch_metrics, means
from ludus.train.learner_state import LearnerState, Tensors, state_from_tensors, state_tensors
from ludus.train.losses import LossInputs, entropy, kl
from ludus.train.minibatches import Columns, deal, make_deck, normalised, own_weight, shuffle, whitened
from ludus.train.objective import Objective, Scales, build_objective, element_count
from ludus.train.optimizer import build_optimizer, learning_rate
from ludus.train.shuffle import round_keys
from ludus.train.sources import labelled
from ludus.train.stretches import RowMaker, Rows, make_rows

__all__ = ["JaxLearner", "LearnerState", "key_of"]


class _Pass(NamedTuple):
    """What stays the same during one update."""

    unravel: Callable[[jax.Array], dict[str, jax.Array]]
    untrained: dict[str, jax.Array]
    """The scale of values, where there is one."""
    rate: jax.Array
    progress: jax.Array

    def params(self, vector: jax.Array) -> dict[str, jax.Array]:
        """All weights, from those that are trained."""
        return {**self.untrained, **self.unravel(vector)}


class _Walk(NamedTuple):
    """What the minibatch loops carry."""

    params: jax.Array
    optimizer: optax.OptState
    sums: Metrics
    """Of every metric, over the steps that were taken."""
    taken: jax.Array
    skipped: jax.Array
    skipped_in_a_row: jax.Array
    stopped: jax.Array
    """Whether the KL went over its bound."""


class JaxLearner:
    """Trains a network by a resolved `TrainConfig` (with `advantage` and `objective` filled in).

    Holds nothing that results depend on.
    """

    def __init__(self, network: PolicyNetwork, train: TrainConfig) -> None:
        if train.algorithm.advantage is None or train.algorithm.objective is None:
            raise ConfigError("train.algorithm: not resolved; advantage and objective must be given")
        self.network = network
        self._train = train
        self._rows: RowMaker = make_rows(network)
        self._minibatch = max(1, train.minibatch // self._rows.length)
        if self._minibatch % train.accumulate:
            raise ConfigError(
                f"train.accumulate: {train.accumulate} does not divide {self._minibatch} rows a minibatch"
            )
        self._advantage = train.algorithm.advantage
        self._objective = build_objective(train.algorithm.objective, mu=train.algorithm.mu)
        _refuse_what_tokens_need(train, self._objective)
        self._optimizer = build_optimizer(train.optimizer)
        self._padded_rows = 0
        self._jitted_update = jax.jit(self.update)
        self._jitted_evaluate = jax.jit(self._evaluate)

    def init(self, seed: int) -> LearnerState:
        """Fresh weights and optimizer. Every leaf is a buffer of its own, so a caller may donate the state."""
        params = self.network.init(seed)
        vector, _ = ravel_pytree(trained(params))
        return LearnerState(
            params, self._optimizer.init(vector), steps=jnp.zeros((), jnp.int32), skipped=jnp.zeros((), jnp.int32)
        )

    def update(
        self, state: LearnerState, batch: Mapping[str, jax.Array], key: jax.Array, progress: jax.Array
    ) -> tuple[LearnerState, Metrics]:
        """Train on one batch. Pure and traceable.

        Args:
            state: not changed.
            batch: `observation [B, *S]`, `legal` bool `[B, A]` (optional), `action` int32 `[B]`, and float32 `[B]`:
                `logp` and `value` (of the policy that acted), `advantage`, `target`, `weight`. Rows of weight 0 are
                padding or not to be learnt from. `source` int32 `[B]` (optional): codes of `train.sources`. `state
                [B, G]`: for a critic that sees it. B is a multiple of the minibatch. For a network with a memory a row
                is a stretch of L decisions: all are `[B, L, ...]` but `source`, and `memory [B, M]` is what each begins
                with.
            key: consumed.
            progress: share of the run that is done, 0 to 1.
        """
        size, minibatch = len(batch["weight"]), self._minibatch
        if size % minibatch:
            raise TrainError(f"a batch of {size} rows is not a whole number of minibatches of {minibatch}")
        if self._advantage.normalise_batch:
            batch = {**batch, "advantage": whitened(batch["advantage"], own_weight(batch))}
        vector, unravel = ravel_pytree(trained(state.params))
        fixed = untrained(state.params)
        if fixed:
            fixed = counted_in(fixed, batch["target"], own_weight(batch))
        constants = _Pass(unravel, fixed, learning_rate(self._train.optimizer, progress), progress)
        walk = self._start(vector, state, batch, constants)
        walk = self._walk_epochs(walk, batch, round_keys(key, self._train.epochs), constants)
        state = LearnerState(
            constants.params(walk.params), walk.optimizer, state.steps + walk.taken, walk.skipped_in_a_row
        )
        counts = as_floats(
            rows=jnp.sum(batch["weight"] > 0),
            optimizer_steps=walk.taken,
            skipped=walk.skipped,
            skipped_in_a_row=walk.skipped_in_a_row,
            kl_stopped=walk.stopped,
            learning_rate=constants.rate,
        )
        counts |= self._objective.schedule(progress)
        own = {**batch, "weight": own_weight(batch)}
        return state, {**means(walk.sums, walk.taken), **batch_metrics(own), **counts}

    def train_batch(
        self, state: LearnerState, experiences: Experiences, seed: int, progress: float
    ) -> tuple[LearnerState, dict[str, float]]:
        """Train on ragged experience: advantages in NumPy, rows padded to one of few sizes, one compiled update.

        Raises:
            TrainError: too many steps in a row were skipped.
        """
        batch = self._credited(state, from_zero(experiences))
        # Never smaller than before: more padding is cheaper than another compilation, and changes no bit of the result.
        self._padded_rows = max(self._padded_rows, bucket(len(batch["weight"]), self._minibatch))
        batch = pad(batch, self._padded_rows)
        state, metrics = self._jitted_update(state, batch, key_of(seed), np.float32(progress))
        floats = {name: float(value) for name, value in jax.device_get(metrics).items()}
        self.check_health(floats)
        return state, floats

    def check_health(self, metrics: Mapping[str, Any]) -> None:
        """Refuse to go on when too many steps in a row were skipped."""
        in_a_row = int(metrics["skipped_in_a_row"])
        if in_a_row >= self._train.max_skipped:
            raise TrainError(
                f"the last {in_a_row} optimizer steps were skipped because loss or gradient was not finite; "
                f"lower train.optimizer.learning_rate, or look for extreme rewards"
            )

    def state_tensors(self, state: LearnerState) -> dict[str, Tensors]:
        """The state as NumPy arrays by name, in the parts `weights` and `optimizer`."""
        return state_tensors(state)

    def state_from_tensors(self, tensors: Mapping[str, Mapping[str, NDArray[Any]]]) -> LearnerState:
        """The state that `state_tensors` wrote, bit for bit; refuses tensors of another network or optimizer."""
        return state_from_tensors(tensors, self.init(0))

    # -- the loops -------------------------------------------------------------------------------------------------

    def _start(self, vector: jax.Array, state: LearnerState, batch: Mapping[str, jax.Array], constants: _Pass) -> _Walk:
        part = {name: column[: self._minibatch] for name, column in batch.items()}
        _, names = jax.eval_shape(lambda: self._gradient(vector, part, constants))
        return _Walk(
            params=vector,
            optimizer=state.optimizer,
            sums={name: jnp.zeros(()) for name in (*names, "grad_norm")},
            taken=jnp.int32(0),
            skipped=jnp.int32(0),
            skipped_in_a_row=state.skipped,
            stopped=jnp.bool_(False),
        )

    def _walk_epochs(self, walk: _Walk, batch: Mapping[str, jax.Array], keys: jax.Array, constants: _Pass) -> _Walk:
        minibatch = self._minibatch
        deck = make_deck(batch["weight"], minibatch)

        def epoch(walk: _Walk, number: jax.Array) -> _Walk:
            order = shuffle(deck, keys[number], minibatch, batch.get("source"))

            def step(walk: _Walk, number: jax.Array) -> _Walk:
                return self._step(walk, deal(batch, deck, order, number, minibatch), constants)

            return _repeat(step, walk, deck.minibatches)

        return _repeat(epoch, walk, jnp.int32(self._train.epochs))

    def _step(self, walk: _Walk, part: Columns, constants: _Pass) -> _Walk:
        """One optimizer step, or none."""
        gradient, metrics = self._gradient(walk.params, part, constants)
        norm = jnp.sqrt(jnp.sum(gradient * gradient))
        metrics = {**metrics, "grad_norm": norm}
        kl_stop, limit = self._train.algorithm.kl_stop, self._train.optimizer.max_grad_norm
        is_finite = jnp.isfinite(metrics["loss"]) & jnp.isfinite(norm)
        stopped = is_finite & (metrics["approx_kl"] > (jnp.inf if kl_stop is None else kl_stop))

        def take() -> _Walk:
            scaled = gradient if limit is None else gradient * (limit / jnp.maximum(norm, limit))
            direction, optimizer = self._optimizer.update(scaled, walk.optimizer, walk.params)
            return walk._replace(
                params=walk.params - constants.rate * direction,
                optimizer=optimizer,
                sums={name: walk.sums[name] + metrics[name] for name in walk.sums},
                taken=walk.taken + 1,
                skipped_in_a_row=jnp.int32(0),
            )

        def skip() -> _Walk:
            bad = (~is_finite).astype(jnp.int32)
            return walk._replace(
                skipped=walk.skipped + bad, skipped_in_a_row=walk.skipped_in_a_row + bad, stopped=stopped
            )

        after: _Walk = lax.cond(is_finite & ~stopped, take, skip)
        return after

    # -- loss and gradient -----------------------------------------------------------------------------------------

    def _gradient(self, vector: jax.Array, part: Columns, constants: _Pass) -> tuple[jax.Array, Metrics]:
        """Gradient and metrics of one minibatch, in as many pieces as `accumulate` says."""
        if self._advantage.normalise:
            part = {**part, "advantage": normalised(part["advantage"], own_weight(part))}
        scales = self._objective.scales(part["weight"], part.get("source"))
        count = element_count(own_weight(part))

        def of_piece(piece: Columns) -> tuple[jax.Array, Metrics]:
            gradient, metrics = jax.grad(self._loss, has_aux=True)(vector, piece, constants, scales, count)
            return gradient, metrics

        pieces = self._train.accumulate
        if pieces == 1:
            return of_piece(part)
        stacked = {name: x.reshape((pieces, -1, *x.shape[1:])) for name, x in part.items()}
        shapes = jax.eval_shape(of_piece, {name: x[0] for name, x in stacked.items()})
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        total: tuple[jax.Array, Metrics]
        total, _ = lax.scan(lambda sums, piece: (jax.tree.map(jnp.add, sums, of_piece(piece)), None), zeros, stacked)
        return total

    def _loss(
        self, vector: jax.Array, piece: Columns, constants: _Pass, scales: Scales, count: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        params = constants.params(vector)
        logits, value = self._rows.apply(params, piece)
        scale = scale_of(params)
        normalise = scale.normalise if scale is not None else _as_it_is
        log_probs = masked_log_softmax(logits, piece.get("legal"))
        inputs = LossInputs(
            mask=piece["weight"],
            logp=take_last(log_probs, piece["action"]),
            old_logp=piece["logp"],
            advantage=piece["advantage"],
            value=normalise(value),
            old_value=normalise(piece["value"]),
            target=normalise(piece["target"]),
            entropy=entropy(log_probs),
            source=piece.get("source"),
        )
        loss, metrics = self._objective(inputs, constants.progress, scales)
        own, total = own_weight(piece), self._objective.aggregation.total
        metrics["entropy"] = total(inputs.entropy, own) / count
        if "approx_kl" not in metrics:
            metrics["approx_kl"] = total(kl(inputs.old_logp, inputs.logp).loss, own) / count
        return loss, {**metrics, "loss": loss}

    # -- ragged experience -----------------------------------------------------------------------------------------

    def _credited(self, state: LearnerState, experiences: Experiences) -> Batch:
        experiences = labelled(experiences, self._objective.sources | {"pairs"})
        if "pair" in experiences.sequences:
            raise TrainError("preference pairs train language models; a network on boards cannot learn from them")
        source = experiences.sequences.get("source")
        rows = self._rows.of(experiences, source, state.params)
        logp = None
        if self._advantage.kind == "vtrace":
            experiences, logp = self._reconsidered(state, experiences, rows)
        advantage, target = compute_for_usual(experiences, source, self._advantage, logp)
        return {**rows.batch, "advantage": rows.gather(advantage), "target": rows.gather(target)}

    def _reconsidered(
        self, state: LearnerState, experiences: Experiences, rows: Rows
    ) -> tuple[Experiences, NDArray[np.float32]]:
        """What the current weights think of the same decisions: values in place, and log-probabilities `[N]`."""
        count = len(rows.batch["weight"])
        padded = pad(rows.batch, bucket(count, self._minibatch))
        logp, value = (rows.scatter(found[:count]) for found in self._jitted_evaluate(state.params, padded))
        return experiences.replace(steps={"value": value}), logp

    def _evaluate(self, params: dict[str, jax.Array], batch: Batch) -> tuple[jax.Array, jax.Array]:
        logits, value = self._rows.apply(params, batch)
        return take_last(masked_log_softmax(logits, batch.get("legal")), batch["action"]), value


def _refuse_what_tokens_need(train: TrainConfig, objective: Objective) -> None:
    """A network on boards has no base model, no engine of its own and no pairs."""
    reference = objective.needs_reference or train.algorithm.kl_reward is not None
    if reference or objective.uses("importance", "truncate", "mask"):
        raise ConfigError(
            "train.algorithm.objective: reference: base, dpo, kl_reward and importance are for language models"
        )


def _as_it_is(value: jax.Array) -> jax.Array:
    return value


def key_of(seed: int) -> jax.Array:
    """A random key from all 63 bits of a seed."""
    words = jnp.asarray(np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32))
    key: jax.Array = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key


def _repeat(body: Callable[[_Walk, jax.Array], _Walk], walk: _Walk, times: jax.Array) -> _Walk:
    """Apply `body(walk, 0)`, `body(walk, 1)`, ... as often as said, or until the walk is stopped."""
    _, walk = lax.while_loop(
        lambda carry: (carry[0] < times) & ~carry[1].stopped,
        lambda carry: (carry[0] + 1, body(carry[1], carry[0])),
        (jnp.int32(0), walk),
    )
    return walk
