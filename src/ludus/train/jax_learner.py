"""The JAX learner: epochs of shuffled minibatches over one batch, as one pure function.

`update` may be traced into a larger program (the fused topology) or called through `train_batch` (the split one). Its
invariants:

- A row with weight 0 counts for nothing: weights and optimizer do not depend on where or how many such rows are, bit
  for bit.
- A minibatch whose loss or gradient is not finite leaves weights and optimizer as they were, and is counted.
- Gradient accumulation gives the gradient of the whole minibatch, because parts are normalised by the whole.

A row is a decision or, for a network with a memory, a chunk of decisions (`batches.py`). `jax_parallel` goes
through the same steps with several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from ludus.config import TrainConfig
from ludus.errors import ConfigError, TrainError
from ludus.policies.networks import PolicyNetwork
from ludus.policies.value_scale import counted_in, trained, untrained
from ludus.records import Experiences
from ludus.train.advantages import compute_on_policy
from ludus.train.arrays import masked_log_softmax, take_last
from ludus.train.batches import Batch, Rows, bucket, from_zero, make_rows, pad
from ludus.train.health import checked, not_finite_row
from ludus.train.jax_shards import agree, conclude, meet
from ludus.train.jax_steps import EpochState, Metrics, Pass, Steps, start_epochs
from ludus.train.learner_state import LearnerState, state_from_tensors, state_tensors
from ludus.train.learners import Parts
from ludus.train.minibatches import deal, make_deck, own_weight, round_keys, shuffle, whitened
from ludus.train.objective import Objective, build_objective
from ludus.train.optimizers import learning_rate
from ludus.train.sources import labelled
from ludus.train.swa import published, start_average, unpublished
from ludus.train.tracing import Tracer

TRACE_ROWS = 64
"""Elements that are scored at once for traces: always as many, so they are compiled once."""


class JaxLearner:
    """Trains a network by a resolved `TrainConfig` (with `advantage` and `objective` filled in).

    Holds nothing that results depend on. `is_sharded`: `update` is traced into a program that several devices run
    side by side (`jax_shards.py`).
    """

    def __init__(self, network: PolicyNetwork, train: TrainConfig, *, is_sharded: bool = False) -> None:
        if train.algorithm.advantage is None or train.algorithm.objective is None:
            raise ConfigError("train.algorithm: not resolved; advantage and objective must be given")
        self.network = network
        self._train = train
        self._is_sharded = is_sharded
        self._rows = make_rows(network)
        self.minibatch = max(1, train.minibatch // self._rows.length)
        """Rows of a minibatch."""
        if self.minibatch % train.accumulate:
            raise ConfigError(f"train.accumulate: {train.accumulate} does not divide {self.minibatch} rows a minibatch")
        self._advantage = train.algorithm.advantage
        self._objective = build_objective(train.algorithm.objective, mu=train.algorithm.mu)
        _refuse_what_tokens_need(train, self._objective)
        self.steps = Steps(self._rows, train, self._objective)
        self._jitted_update = jax.jit(self.update)
        self._jitted_evaluate = jax.jit(self._evaluate)
        self._tracer: Tracer | None = None

    def init(self, seed: int) -> LearnerState:
        """Fresh weights and optimizer. Every leaf is a buffer of its own, so a caller may donate the state."""
        params = self.network.init(seed)
        vector, _ = ravel_pytree(trained(params))
        return LearnerState(
            params,
            self.steps.optimizer.init(vector),
            steps=jnp.zeros((), jnp.int32),
            skipped=jnp.zeros((), jnp.int32),
            average=None if self._train.swa is None else start_average(params),
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
                is a chunk of L decisions: all are `[B, L, ...]` but `source`, and `memory [B, M]` is what each begins
                with.
            key: consumed.
            progress: share of the run that is done, 0 to 1.
        """
        size, minibatch = len(batch["weight"]), self.minibatch
        if size % minibatch:
            raise TrainError(f"a batch of {size} rows is not a whole number of minibatches of {minibatch}")
        batch = self.prepare(batch)
        vector, unravel = ravel_pytree(trained(state.params))
        fixed = untrained(state.params)
        if fixed:
            fixed = counted_in(fixed, batch["target"], own_weight(batch))
            fixed = agree(fixed) if self._is_sharded else fixed
        constants = Pass(unravel, learning_rate(self._train.optimizer, progress, state.steps), progress, fixed)
        epochs = self.start(vector, state, batch, constants)
        epochs = self._run_epochs(epochs, batch, round_keys(key, self._train.epochs), constants)
        after, metrics = self.steps.conclude(epochs, state, batch, constants)
        return conclude(after, metrics) if self._is_sharded else (after, metrics)

    def train_batch(
        self, state: LearnerState, experiences: Experiences, seed: int, progress: float
    ) -> tuple[LearnerState, dict[str, float]]:
        """Train on ragged experience: advantages in NumPy, rows padded to one of few sizes, one compiled update."""
        batch = self.padded(state, experiences)
        state, metrics = self._jitted_update(state, batch, key_of(seed), np.float32(progress))
        floats = {name: float(value) for name, value in jax.device_get(metrics).items()}
        return state, checked(floats, self._train, lambda: not_finite_row(batch, batch["weight"]))

    def trace_by(self, tracer: Tracer) -> None:
        """Let somebody see what the weights think of each batch before the first step."""
        self._tracer = tracer

    def state_tensors(self, state: LearnerState) -> Parts:
        """The state in two parts, `weights` and `optimizer`; `weights` are what is published."""
        tensors = state_tensors(state)
        return published(tensors) if self._train.swa is not None and self._train.swa.publish else tensors

    def state_from_tensors(self, tensors: Parts) -> LearnerState:
        """The state that `state_tensors` wrote, bit for bit; refuses tensors of another network or optimizer."""
        return state_from_tensors(unpublished(tensors), self.init(0))

    # -- the loops -------------------------------------------------------------------------------------------------

    def prepare(self, batch: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
        """What is done to a batch before it is cut into minibatches."""
        if not self._advantage.normalise_batch:
            return batch
        return {**batch, "advantage": whitened(batch["advantage"], own_weight(batch))}

    def start(
        self, vector: jax.Array, state: LearnerState, batch: Mapping[str, jax.Array], constants: Pass
    ) -> EpochState:
        """The epochs before their first minibatch."""
        part = {name: column[: self.minibatch] for name, column in batch.items()}
        _, names = jax.eval_shape(lambda: self.steps.gradient(vector, part, constants))
        return start_epochs(vector, state, names)

    def _run_epochs(
        self, epochs: EpochState, batch: Mapping[str, jax.Array], keys: jax.Array, constants: Pass
    ) -> EpochState:
        minibatch = self.minibatch
        deck = make_deck(batch["weight"], minibatch)

        def epoch(epochs: EpochState, number: jax.Array) -> EpochState:
            order = shuffle(deck, keys[number], minibatch, batch.get("source"))

            def step(epochs: EpochState, number: jax.Array) -> EpochState:
                part = deal(batch, deck, order, number, minibatch)
                return self.steps.take(epochs, *self.steps.gradient(epochs.params, part, constants), constants)

            epochs = _repeat(step, epochs, deck.minibatches)
            return meet(epochs) if self._is_sharded else epochs

        return _repeat(epoch, epochs, jnp.int32(self._train.epochs))

    # -- ragged experience -----------------------------------------------------------------------------------------

    def padded(self, state: LearnerState, experiences: Experiences) -> Batch:
        """Ragged experience as the flat batch that `update` takes, with advantages."""
        batch = self._credited(state, from_zero(experiences))
        # By this batch alone: sums over a whole batch (`normalise_batch`, a running value scale) are rounded by size,
        # and a resumed run has not seen the batches before.
        return pad(batch, bucket(len(batch["weight"]), self.minibatch))

    def _credited(self, state: LearnerState, experiences: Experiences) -> Batch:
        experiences = labelled(experiences, self._objective.sources | {"pairs"})
        if "pair" in experiences.sequences:
            raise TrainError("preference pairs train language models; a network on boards cannot learn from them")
        source = experiences.sequences.get("source")
        rows = self._rows.of(experiences, source, state.params)
        logp = None
        if self._advantage.kind == "vtrace":
            experiences, logp = self._reconsidered(state, experiences, rows)
        advantage, target = compute_on_policy(experiences, source, self._advantage, logp)
        if self._tracer is not None:
            known = {} if logp is None else {"trainer_logp": logp}
            columns = {"advantage": advantage, "target": target, **known}
            self._tracer.take(experiences, columns, lambda some: self._logp(state, some))
        return {**rows.batch, "advantage": rows.gather(advantage), "target": rows.gather(target)}

    def _reconsidered(
        self, state: LearnerState, experiences: Experiences, rows: Rows
    ) -> tuple[Experiences, NDArray[np.float32]]:
        """What the current weights think of the same decisions: values in place, and log-probabilities `[N]`."""
        count = len(rows.batch["weight"])
        padded = pad(rows.batch, bucket(count, self.minibatch))
        logp, value = (rows.scatter(found[:count]) for found in self._jitted_evaluate(state.params, padded))
        return experiences.replace(steps={"value": value}), logp

    def _logp(self, state: LearnerState, experiences: Experiences) -> NDArray[np.float32]:
        """Log-probability `[N]` of what was chosen, under the current weights; 0 elsewhere."""
        rows = self._rows.of(experiences, None, state.params)
        count, size = len(rows.batch["weight"]), max(1, TRACE_ROWS // self._rows.length)
        found = [
            self._jitted_evaluate(state.params, pad({k: x[at : at + size] for k, x in rows.batch.items()}, size))[0]
            for at in range(0, count, size)
        ]
        return rows.scatter(np.concatenate([np.asarray(part) for part in found])[:count])

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


def key_of(seed: int) -> jax.Array:
    """A random key from all 63 bits of a seed."""
    words = jnp.asarray(np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32))
    key: jax.Array = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key


def _repeat(body: Callable[[EpochState, jax.Array], EpochState], epochs: EpochState, times: jax.Array) -> EpochState:
    """Apply `body(epochs, 0)`, `body(epochs, 1)`, ... as often as said, or until they are stopped."""
    _, epochs = lax.while_loop(
        lambda carry: (carry[0] < times) & ~carry[1].stopped,
        lambda carry: (carry[0] + 1, body(carry[1], carry[0])),
        (jnp.int32(0), epochs),
    )
    return epochs
