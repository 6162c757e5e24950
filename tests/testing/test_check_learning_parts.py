"""The public checks of losses, advantages, schedules, presets, networks and loaders: what is right passes, what is wrong is named."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_api_compat import array_namespace
from flax import nnx

from ludus.config import ALGORITHMS, AdvantageConfig, Preset, TermConfig
from ludus.records import Experiences
from ludus.testing import (
    ConformanceError,
    check_advantage,
    check_loader,
    check_loss,
    check_network,
    check_preset,
    check_schedule,
)
from ludus.testing.experiences import sample_experiences
from ludus.train import LOSSES, Elements, LossInputs
from ludus.train.advantages import gae, monte_carlo


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_every_loss_conforms(name: str) -> None:
    check_loss(LOSSES[name])


def positional(inputs: LossInputs, epsilon: float = 0.1) -> Elements:
    return Elements(loss=-inputs.logp)


def summed(inputs: LossInputs) -> Elements:
    return Elements(loss=array_namespace(inputs.logp).sum(inputs.logp))


def infinite(inputs: LossInputs) -> Elements:
    return Elements(loss=inputs.logp / (inputs.mask - 1.0))


def numpy_only(inputs: LossInputs) -> Elements:
    return Elements(loss=np.exp(inputs.logp))


def constant(inputs: LossInputs) -> Elements:
    return Elements(loss=inputs.advantage)


def unwrapped(inputs: LossInputs) -> Any:
    return -inputs.logp


@pytest.mark.parametrize(
    ("loss", "promise"),
    [
        (positional, "keyword-only"),
        (summed, "a value for every element"),
        (infinite, "finite where its inputs are"),
        (numpy_only, "raised"),
        (constant, "has a gradient by"),
        (unwrapped, "gives Elements"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_loss_that_breaks_a_promise_is_named(loss: Any, promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise):
        check_loss(loss)


def test_an_option_that_a_loss_lacks_is_named() -> None:
    with pytest.raises(ConformanceError, match="takes tau, got"):
        check_loss(LOSSES["opmd"], beta=1.0)


def test_advantages_that_conform_pass() -> None:
    check_advantage(monte_carlo)
    check_advantage(gae, lam=0.5)


@pytest.mark.parametrize(
    ("advantage", "promise"),
    [
        (lambda rows: rows.steps["reward"], r"\(advantage, target\)"),
        (lambda rows: (rows.steps["reward"][1:],) * 2, "a number for every step"),
        (lambda rows: (rows.steps["reward"] / 0.0,) * 2, "finite"),
        (lambda rows: (np.add(rows.steps["reward"], 1, out=rows.steps["reward"]),) * 2, "changed the experiences"),
        (lambda rows: (np.random.default_rng().normal(size=rows.step_count),) * 2, "another result"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_advantage_that_breaks_a_promise_is_named(advantage: Any, promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise):
        check_advantage(advantage)


def test_schedules_are_checked() -> None:
    check_schedule(lambda progress, *, final_fraction: 1.0 - (1.0 - final_fraction) * progress**2)
    with pytest.raises(ConformanceError, match="the rate at"):
        check_schedule(lambda progress, *, final_fraction: final_fraction - progress)
    with pytest.raises(ConformanceError, match="raised"):
        check_schedule(lambda progress, *, final_fraction: 1.0 if progress < 0.5 else final_fraction)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_preset_conforms(name: str) -> None:
    check_preset(ALGORITHMS[name])


def test_a_preset_with_an_unknown_loss_or_option_is_named() -> None:
    with pytest.raises(ConformanceError, match="did you mean ppo_clip"):
        check_preset(Preset(advantage=AdvantageConfig(), objective=(TermConfig(loss="ppo_clp"),)))
    with pytest.raises(ConformanceError, match="has no option epsilon"):
        check_preset(Preset(advantage=AdvantageConfig(), objective=(TermConfig(loss="value", options={"epsilon": 1}),)))
    with pytest.raises(ConformanceError, match="no mu"):
        check_preset(Preset(advantage=AdvantageConfig(), objective=(TermConfig(loss="value", share="mu"),)))


class Net(nnx.Module):
    def __init__(self, shape: tuple[int, ...], actions: int, rngs: nnx.Rngs, *, flaw: str = "") -> None:
        self.layer = nnx.Linear(int(np.prod(shape)), actions + 1, rngs=rngs if flaw != "seed" else nnx.Rngs(3))
        self.flaw = flaw

    def __call__(self, seen: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = seen.reshape(len(seen), -1)
        if self.flaw == "batch":
            x = x - x.mean(0)
        if self.flaw == "dead":
            x = jnp.zeros_like(x)
        both = self.layer(x) * (0.0 if self.flaw == "dead" else 1.0)
        return both[:, :-1], both[:, -1:] if self.flaw == "shape" else both[:, -1]


@pytest.mark.parametrize("shape", [(7,), (3, 3), (4, 3, 2)])
def test_a_network_that_conforms_passes(shape: tuple[int, ...]) -> None:
    check_network(Net, shape=shape, actions=5)


@pytest.mark.parametrize(
    ("flaw", "promise"),
    [
        ("shape", r"values are \[B\]"),
        ("batch", "alone and among others"),
        ("dead", "a gradient that is not 0"),
        ("seed", "another seed"),
    ],
)
def test_a_network_that_breaks_a_promise_is_named(flaw: str, promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise):
        check_network(Net, shape=(7,), actions=5, flaw=flaw)


class Rows:
    """The same batch with a number that goes up."""

    def __init__(self, flaw: str = "") -> None:
        self.flaw, self.number = flaw, 0

    def next(self) -> Experiences:
        self.number += 1
        batch = sample_experiences((2, 1)).replace(steps={"value": np.full(3, self.number, np.float32)})
        if self.flaw == "nan":
            return batch.replace(steps={"reward": np.full(3, np.nan, np.float32)})
        if self.flaw == "columns":
            steps = {name: column for name, column in batch.steps.items() if name != "logp"}
            return Experiences(sequences=batch.sequences, offsets=batch.offsets, steps=steps)
        return batch.take(np.array([], np.int64)) if self.flaw == "empty" else batch

    def state(self) -> dict[str, Any]:
        return {"number": np.int64(1) if self.flaw == "json" else self.number}

    def load_state(self, state: Any) -> None:
        self.number = 0 if self.flaw == "state" else state["number"]

    def close(self) -> None:
        pass


def test_a_loader_that_conforms_passes() -> None:
    check_loader(Rows)


@pytest.mark.parametrize(
    ("flaw", "promise"),
    [
        ("columns", "lack logp"),
        ("empty", "at least one"),
        ("json", "not JSON"),
        ("state", "another batch"),
        ("nan", "reward is nan in row 0"),
    ],
)
def test_a_loader_that_breaks_a_promise_is_named(flaw: str, promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise):
        check_loader(lambda: Rows(flaw))
