"""The promises of a loss, an advantage, a learning-rate schedule, a preset and a network, as public checks.

from ludus.testing import check_loss
def test_mine(): check_loss(mine, epsilon=0.1)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from importlib.util import find_spec
from typing import Any

import numpy as np

from ludus.config import CustomNetworkConfig, Preset
from ludus.config.parts import LOSSES, NETWORKS, loss_options
from ludus.policies.shapes import NetworkFactory
from ludus.testing.conformance import call, require
from ludus.testing.experiences import are_equal, sample_batches
from ludus.train.advantages import Advantage
from ludus.train.loss_inputs import Elements, Loss, LossInputs
from ludus.train.schedules import Schedule

CLOSE = 1e-4
ROWS = 5
_NETWORK = "being_checked"
_DIFFERENTIABLE = ("logp", "value", "entropy")
Columns = Mapping[str, Any]
Gradients = tuple[Any, dict[str, Any]]


def check_loss(loss: Loss, *, seed: int = 0, **options: Any) -> None:
    """Raise `ConformanceError` naming the promise that the loss breaks.

    Covered: options are keyword-only; a finite loss per element, of decisions `[B]` and tokens `[B, T]`; the same
    values in NumPy, JAX and PyTorch (those that are installed), and the same finite gradients in the latter two. Not
    covered: whether the formula is the one you meant.
    """
    _, *others = inspect.signature(loss).parameters.values()
    named = {one.name for one in others if one.kind is one.KEYWORD_ONLY}
    require(named == {one.name for one in others}, "the options of a loss are keyword-only arguments, after *")
    require(options.keys() <= named, f"the loss takes {', '.join(sorted(named)) or 'no options'}, got {options}")
    for shape in ((6,), (4, 3)):
        columns = _columns(shape, seed)
        value = np.asarray(_elements(loss, columns, options, "NumPy").loss)
        require(value.shape == shape, f"a loss has a value for every element, {shape}, got {value.shape}")
        require(bool(np.isfinite(value).all()), "a loss is finite where its inputs are")
        found = [differentiate(loss, columns, options) for differentiate in _frameworks()]
        for name, (other, gradients) in found:
            require(bool(np.allclose(value, other, atol=CLOSE)), f"{name} gives another loss than NumPy")
            require(all(np.isfinite(one).all() for one in gradients.values()), f"a gradient in {name} is not finite")
        for column in _DIFFERENTIABLE if len(found) > 1 else ():
            one, other = (gradients[column] for _, (_, gradients) in found)
            require(bool(np.allclose(one, other, atol=CLOSE)), f"JAX and PyTorch give another gradient of {column}")


def check_advantage(advantage: Advantage, *, seed: int = 0, **options: Any) -> None:
    """Raise `ConformanceError` naming the promise that the advantage breaks.

    Covered: two finite columns with a number for every step, of boards and of tokens, also for one sequence and for
    equal rewards; arguments left alone; the same result from the same experience. Not covered: the formula.
    """
    for batch in sample_batches(seed):
        kept = deepcopy(batch)
        found = call("the advantage", advantage, batch, **options)
        require(isinstance(found, tuple) and len(found) == 2, "an advantage gives (advantage, target)")
        for column in found:
            shape = np.asarray(column).shape
            require(shape == (batch.step_count,), f"a column has a number for every step, {batch.step_count}: {shape}")
            require(bool(np.isfinite(column).all()), "advantages and targets are finite")
        require(are_equal(batch, kept), "the advantage changed the experiences")
        again = call("the advantage", advantage, batch, **options)
        require(all(map(np.array_equal, found, again)), "the same experience gave another result")


def check_schedule(schedule: Schedule, *, final_fraction: float = 0.1) -> None:
    """Raise `ConformanceError` naming the promise that the schedule breaks.

    Covered: from the beginning to the end of the run, one finite number that is not negative, the same in NumPy and in
    compiled JAX.
    """
    compiled: Callable[[Any], Any] | None = None
    if find_spec("jax"):
        import jax

        compiled = jax.jit(lambda progress: schedule(progress, final_fraction=final_fraction))
    for progress in np.linspace(0.0, 1.0, 21, dtype=np.float32):
        rate = np.asarray(call("the schedule", schedule, np.asarray(progress), final_fraction=final_fraction))
        require(rate.shape == (), f"a schedule gives one number, got {rate.shape}")
        require(bool(np.isfinite(rate)) and float(rate) >= 0, f"the rate at {progress:g} is {float(rate)}")
        if compiled is not None:
            same = np.allclose(np.asarray(call("the schedule in JAX", compiled, progress)), rate, atol=CLOSE)
            require(bool(same), f"JAX gives another rate than NumPy at {progress:g}")


def check_preset(preset: Preset) -> None:
    """Raise `ConformanceError` naming the promise that the preset breaks: every loss is known and has its options."""
    require(bool(preset.objective), "a preset has at least one term")
    for term in preset.objective:
        require(term.loss in LOSSES, f"loss {term.loss!r}: {LOSSES.unknown(term.loss)}")
        unknown = sorted(term.options.keys() - loss_options(term.loss).keys())
        require(not unknown, f"the loss {term.loss} has no option {', '.join(unknown)}")
    shares = [term for term in preset.objective if term.share]
    require(not shares or preset.mu is not None, "a term has a share, but the preset has no mu")


def check_network(factory: NetworkFactory, *, shape: tuple[int, ...], actions: int, **options: Any) -> None:
    """Raise `ConformanceError` naming the promise that the network breaks.

    Covered: finite logits `[B, A]` and values `[B]`; a row that does not depend on the others; weights that follow from
    the seed; finite gradients, of which not all are 0; no state besides the weights. Not covered: whether it learns.

    Args:
        factory: As for `register_network`.
        shape: What a seat sees; a board as `[H, W, C]`.
        actions: Number of actions.
        **options: Further arguments of the factory.
    """
    import jax
    import jax.numpy as jnp

    from ludus.policies.networks import PolicyNetwork

    config = CustomNetworkConfig(name=_NETWORK, options=options)
    NETWORKS.added[_NETWORK] = factory
    try:
        network = PolicyNetwork(config, observation_shape=shape, actions=actions, layout="channels_last")
        weights, again, others = (call("making the network", network.init, seed) for seed in (0, 0, 1))
        apply = jax.jit(network.apply)
        seen = jnp.asarray(np.random.default_rng(0).normal(size=(ROWS, *shape)), jnp.float32)
        logits, value = call("the network", apply, weights, seen)
        alone = [call("the network", apply, weights, seen[row : row + 1]) for row in range(ROWS)]
        slope = jax.grad(lambda weights: sum(jnp.sum(jnp.square(out)) for out in network.apply(weights, seen)))(weights)
    finally:
        del NETWORKS.added[_NETWORK]
    require(logits.shape == (ROWS, actions), f"logits are [B, A] = {(ROWS, actions)}, got {logits.shape}")
    require(value.shape == (ROWS,), f"values are [B] = {(ROWS,)}, got {value.shape}")
    require(bool(jnp.isfinite(logits).all() and jnp.isfinite(value).all()), "logits and values are finite")
    for row, (its_logits, its_value) in enumerate(alone):
        same = np.allclose(its_logits[0], logits[row], atol=CLOSE) and np.allclose(its_value[0], value[row], atol=CLOSE)
        require(bool(same), "a row gives the same alone and among others: no statistics over the batch")
    require(all(map(np.array_equal, weights.values(), again.values())), "the same seed gives the same weights")
    require(not all(map(np.array_equal, weights.values(), others.values())), "another seed gives other weights")
    require(all(bool(jnp.isfinite(one).all()) for one in slope.values()), "gradients are finite")
    require(any(bool(one.any()) for one in slope.values()), "some weight has a gradient that is not 0")


def _columns(shape: tuple[int, ...], seed: int) -> Columns:
    rng = np.random.default_rng(seed)
    rows = shape[0]
    logp = np.log(rng.uniform(0.05, 1.0, (4, *shape)))
    normal = rng.normal(size=(4, *shape))
    names = ("logp", "old_logp", "start_logp", "ref_logp"), ("advantage", "value", "old_value", "target")
    columns = dict(zip(names[0], logp, strict=True)) | dict(zip(names[1], normal, strict=True))
    columns |= {"entropy": rng.uniform(0.1, 2.0, shape), "mask": np.ones(shape)}
    pairs = {"partner": np.arange(rows) ^ 1, "chosen": np.arange(rows) % 2 == 0}
    return {name: column.astype(np.float32) for name, column in columns.items()} | pairs


def _elements(loss: Loss, columns: Columns, options: Mapping[str, Any], where: str) -> Elements:
    found = call(f"the loss in {where}", loss, LossInputs(**columns), **options)
    require(isinstance(found, Elements), f"a loss gives Elements, got {type(found).__name__}")
    return found


def _frameworks() -> list[Callable[[Loss, Columns, Mapping[str, Any]], tuple[str, Gradients]]]:
    return [one for name, one in (("jax", _in_jax), ("torch", _in_torch)) if find_spec(name)]


def _in_jax(loss: Loss, columns: Columns, options: Mapping[str, Any]) -> tuple[str, Gradients]:
    import jax
    import jax.numpy as jnp

    arrays = {name: jnp.asarray(column) for name, column in columns.items()}

    def total(learnt: dict[str, Any]) -> tuple[Any, Any]:
        elements = _elements(loss, arrays | learnt, options, "JAX")
        return jnp.sum(elements.loss), elements.loss

    compiled = jax.jit(jax.value_and_grad(total, has_aux=True))
    (_, value), gradients = compiled({name: arrays[name] for name in _DIFFERENTIABLE})
    return "JAX", (np.asarray(value), {name: np.asarray(one) for name, one in gradients.items()})


def _in_torch(loss: Loss, columns: Columns, options: Mapping[str, Any]) -> tuple[str, Gradients]:
    import torch

    arrays = {name: torch.from_numpy(np.array(column)) for name, column in columns.items()}
    learnt = [arrays[name].requires_grad_() for name in _DIFFERENTIABLE]
    value = _elements(loss, arrays, options, "PyTorch").loss
    require(bool(value.requires_grad), "a loss has a gradient by logp, value or entropy")
    gradients = torch.autograd.grad(value.sum(), learnt, allow_unused=True, materialize_grads=True)
    found = dict(zip(_DIFFERENTIABLE, (one.numpy() for one in gradients), strict=True))
    return "PyTorch", (value.detach().numpy(), found)
