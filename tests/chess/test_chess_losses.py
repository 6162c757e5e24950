"""Every loss of a chess network against an independent computation: torch, or NumPy in float64, row by row."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from ludus.chess import losses
from ludus.chess.losses import LOSSES, Rows, Targets, build_terms
from ludus.chess.networks import ChessOutputs
from ludus.config import CHESS_LOSS_OPTIONS, TermConfig
from ludus.errors import ConfigError

ROWS = 12


def make(seed: int = 0) -> tuple[ChessOutputs, Targets]:
    """Outputs of heads, and targets: row 0 has a NaN policy, row 1 no legal move, row 2 unknown values."""
    generator = np.random.default_rng(seed)

    def draw(*shape: int) -> jax.Array:
        return jnp.asarray(generator.normal(size=shape), jnp.float32)

    policy = np.full((ROWS, 1858), -1.0, np.float32)
    for row in policy:
        legal = generator.choice(1858, 25, replace=False)
        row[legal] = generator.dirichlet(np.full(25, 0.3)) * (generator.random(25) < 0.7)
        row[legal] /= row[legal].sum()
    policy[0, 5], policy[1] = np.nan, -1.0
    values = np.stack(
        [
            generator.uniform(-0.6, 0.6, (ROWS, 6)),
            generator.uniform(0, 0.4, (ROWS, 6)),
            generator.uniform(0, 150, (ROWS, 6)),
        ],
        axis=-1,
    ).astype(np.float32)
    values[2], values[3, 3], values[:, 5, 2] = np.nan, np.nan, np.nan
    outputs = ChessOutputs(
        policy={"vanilla": draw(ROWS, 1858)},
        value={"winner": draw(ROWS, 3)},
        error={"winner": jax.nn.sigmoid(draw(ROWS))},
        categorical={"winner": draw(ROWS, 16)},
        moves_left={"main": draw(ROWS) * 50 + 60},
    )
    return outputs, Targets(jnp.asarray(policy), jnp.asarray(values))


def kept(rows: Rows) -> np.ndarray:
    loss, is_there = np.asarray(rows.loss), np.asarray(rows.is_there)
    assert np.isfinite(loss).all()
    return np.where(is_there, loss, np.nan)


def torch_policy(logits: np.ndarray, row: np.ndarray, *, illegal: str, temperature: float, kind: str) -> float:
    legal = row >= 0
    share = torch.tensor(np.maximum(row, 0.0), dtype=torch.float64) ** (1.0 / temperature)
    share = share / share.sum()
    scores = torch.tensor(logits, dtype=torch.float64)
    if illegal == "mask":
        scores, share = scores[torch.tensor(legal)], share[torch.tensor(legal)]
    if kind == "kl":
        return float(torch.nn.functional.kl_div(torch.log_softmax(scores, 0), share, reduction="sum"))
    return float(torch.nn.functional.cross_entropy(scores[None], share[None]))


@pytest.mark.parametrize("illegal", ["mask", "train_to_zero"])
@pytest.mark.parametrize(("temperature", "kind"), [(1.0, "cross_entropy"), (4.0, "kl"), (0.5, "cross_entropy")])
def test_policy_equals_torch(illegal: str, temperature: float, kind: str) -> None:
    outputs, targets = make()
    found = kept(losses.policy(outputs, targets, illegal=illegal, temperature=temperature, kind=kind))
    policy = np.asarray(targets.policy)
    expected = [
        np.nan
        if place in (0, 1)
        else torch_policy(np.asarray(row), policy[place], illegal=illegal, temperature=temperature, kind=kind)
        for place, row in enumerate(outputs.policy["vanilla"])
    ]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_optimistic_weights_grow_with_how_much_better_it_went() -> None:
    outputs, targets = make()
    plain = kept(losses.policy(outputs, targets))
    found = kept(losses.policy(outputs, targets, strength=1.5, alpha=2.0, value_target="best"))
    wdl = torch.softmax(torch.tensor(np.asarray(outputs.value["winner"]), dtype=torch.float64), -1).numpy()
    q, error = np.asarray(targets.values)[:, 1, 0], np.asarray(outputs.error["winner"], np.float64)
    z = (q - (wdl[:, 0] - wdl[:, 2])) / (np.sqrt(error) + 1e-5)
    np.testing.assert_allclose(found, plain / (1 + np.exp(-(z - 1.5) * 2.0)), rtol=1e-4)
    assert np.isnan(found[2])
    gradient = jax.grad(
        lambda wdl: jnp.nansum(losses.policy(outputs._replace(value={"winner": wdl}), targets, strength=1.0).loss)
    )(outputs.value["winner"])
    assert not np.asarray(gradient).any()


@pytest.mark.parametrize("target", losses.VALUE_ROWS)
def test_value_equals_torch_for_each_of_the_six_targets(target: str) -> None:
    outputs, targets = make()
    q, d, _ = np.moveaxis(np.asarray(targets.values, np.float64)[:, losses.VALUE_ROWS.index(target)], -1, 0)
    wdl = np.maximum(np.stack([(1 - d + q) / 2, d, (1 - d - q) / 2], -1), 0)
    expected = torch.nn.functional.cross_entropy(
        torch.tensor(np.asarray(outputs.value["winner"]), dtype=torch.float64),
        torch.tensor(wdl / wdl.sum(-1, keepdims=True)),
        reduction="none",
    )
    found = kept(losses.value(outputs, targets, target=target))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)
    assert np.isnan(found[2])
    assert np.isnan(found[3]) == (target == "orig")


def test_value_error_equals_numpy_and_leaves_the_value_alone() -> None:
    outputs, targets = make()
    wdl = torch.softmax(torch.tensor(np.asarray(outputs.value["winner"]), dtype=torch.float64), -1).numpy()
    q = np.asarray(targets.values, np.float64)[:, 4, 0]
    expected = (np.asarray(outputs.error["winner"]) - (wdl[:, 0] - wdl[:, 2] - q) ** 2) ** 2
    np.testing.assert_allclose(
        kept(losses.value_error(outputs, targets, target="root")), expected, rtol=1e-4, atol=1e-6
    )
    gradient = jax.grad(lambda wdl: jnp.sum(losses.value_error(outputs._replace(value={"winner": wdl}), targets).loss))(
        outputs.value["winner"]
    )
    assert not np.asarray(gradient).any()


def test_categorical_equals_torch() -> None:
    outputs, targets = make()
    q = np.asarray(targets.values, np.float64)[:, 0, 0]
    buckets = np.clip(np.floor((np.nan_to_num(q) + 1) / 2 * 16), 0, 15).astype(int)
    logits = torch.tensor(np.asarray(outputs.categorical["winner"]))
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(buckets), reduction="none").numpy()
    found = kept(losses.value_categorical(outputs, targets, target="result"))
    np.testing.assert_allclose(found, np.where(np.isnan(q), np.nan, expected), rtol=1e-5)


def test_moves_left_equals_torchs_huber() -> None:
    outputs, targets = make()
    plies = np.asarray(targets.values)[:, 0, 2]
    expected = torch.nn.functional.huber_loss(
        torch.tensor(np.asarray(outputs.moves_left["main"])) / 20, torch.tensor(plies) / 20, reduction="none", delta=0.5
    )
    np.testing.assert_allclose(kept(losses.moves_left(outputs, targets)), expected.numpy(), rtol=1e-5)
    assert np.isnan(kept(losses.moves_left(outputs, targets, target="st"))).all()


def test_missing_targets_reach_no_gradient() -> None:
    outputs, targets = make()
    for loss in (losses.policy, losses.value, losses.value_categorical, losses.moves_left):

        def total(outputs: ChessOutputs, loss: object = loss) -> jax.Array:
            rows = loss(outputs, targets)  # type: ignore[operator]
            return jnp.sum(jnp.where(rows.is_there, rows.loss, 0.0))

        for leaf in jax.tree.leaves(jax.grad(total)(outputs)):
            assert np.isfinite(np.asarray(leaf)).all()
    policy = jax.grad(
        lambda outputs: jnp.sum(jnp.where((rows := losses.policy(outputs, targets)).is_there, rows.loss, 0.0))
    )(outputs)
    assert not np.asarray(policy.policy["vanilla"])[:2].any()
    assert np.asarray(policy.policy["vanilla"])[2].any()


def test_options_in_the_config_are_those_of_the_functions() -> None:
    assert LOSSES.keys() == CHESS_LOSS_OPTIONS.keys()
    for name, loss in LOSSES.items():
        found = {one.name for one in inspect.signature(loss).parameters.values() if one.kind is one.KEYWORD_ONLY}
        assert found == CHESS_LOSS_OPTIONS[name].keys(), name


@pytest.mark.parametrize(
    ("loss", "options"),
    [(name, {}) for name in LOSSES]
    + [("chess_policy", {"strength": 1.0, "value_target": "orig"}), ("chess_moves_left", {"target": "st"})],
)
def test_which_rows_count_is_known_without_outputs(loss: str, options: dict[str, float | bool | str | None]) -> None:
    outputs, targets = make()
    (term,) = build_terms((TermConfig(loss=loss, options=options),))
    np.testing.assert_array_equal(term.known(targets), term(outputs, targets).is_there)


def test_terms_of_one_loss_have_names_of_their_own_and_others_are_refused() -> None:
    terms = build_terms(
        (TermConfig(loss="chess_policy"), TermConfig(loss="chess_value"), TermConfig(loss="chess_policy", weight=0.5))
    )
    assert [term.name for term in terms] == ["chess_policy_0", "chess_value", "chess_policy_2"]
    with pytest.raises(ConfigError, match="ppo_clip"):
        build_terms((TermConfig(loss="ppo_clip"),))
