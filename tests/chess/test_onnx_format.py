"""Exported ONNX models: onnxruntime gives what the JAX network gives, for every head, on real positions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
native = pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus.chess.lc0_format import read_network  # noqa: E402
from ludus.chess.networks import ChessOutputs  # noqa: E402
from ludus.chess.onnx_format import onnx_bytes  # noqa: E402
from ludus.config.sections.chess import (  # noqa: E402
    ChessAttentionConfig,
    ChessHeadsConfig,
    ChessMovesLeftHeadConfig,
    ChessNetworkConfig,
    ChessPolicyHeadConfig,
    ChessResidualConfig,
    ChessValueHeadConfig,
    SmolgenConfig,
)
from ludus.policies import PolicyShape  # noqa: E402

MAIA = Path(__file__).parents[2].parent / "shared" / "data" / "maia-1100.pb.gz"
ATTENTION = ChessPolicyHeadConfig(kind="attention", embedding=12, width=20)
HEADS = {
    "value": {
        "winner": ChessValueHeadConfig(channels=3, inner=10),
        "st": ChessValueHeadConfig(channels=5, inner=7, error=True, buckets=9),
    },
    "moves_left": {
        "main": ChessMovesLeftHeadConfig(channels=2, inner=6),
        "other": ChessMovesLeftHeadConfig(channels=3, inner=5),
    },
}
NETWORKS: dict[str, ChessNetworkConfig] = {
    "tower": ChessResidualConfig(
        kind="chess_residual",
        blocks=2,
        filters=8,
        squeeze=4,
        heads=ChessHeadsConfig(
            policy={"vanilla": ChessPolicyHeadConfig(kind="convolution"), "soft": ATTENTION}, **HEADS
        ),
    ),
    "tower with batch norm, mish, no squeeze": ChessResidualConfig(
        kind="chess_residual",
        blocks=1,
        filters=8,
        squeeze=0,
        norm="frozen",
        activation="mish",
        heads=ChessHeadsConfig(policy={"mine": ATTENTION}, main_policy="mine", main_value="st", **HEADS),
    ),
    "attention": ChessAttentionConfig(
        kind="chess_attention",
        layers=2,
        width=16,
        heads_per_layer=4,
        feed_forward=24,
        position=3,
        smolgen=SmolgenConfig(compressed=2, inner=6, size=5),
        heads=ChessHeadsConfig(policy={"vanilla": ATTENTION, "soft": ChessPolicyHeadConfig()}, **HEADS),
    ),
    "plain attention": ChessAttentionConfig(
        kind="chess_attention",
        layers=1,
        width=16,
        heads_per_layer=2,
        smolgen=None,
        activation="relu",
        feed_forward_activation="relu_2",
        heads=ChessHeadsConfig(moves_left={}),
    ),
}


def positions(count: int, input_format: int = 1) -> NDArray[np.float32]:
    """Planes of positions of random games, as a loader gives them."""
    order, found, board = random.Random(3), [], native.Board()
    while len(found) < count:
        if board.outcome() is not None:
            board = native.Board()
        board.push(order.choice(board.legal_moves()))
        found.append(board.encode(input_format=input_format).copy())
    return np.stack(found)


def perturbed(config: ChessNetworkConfig) -> dict[str, NDArray[np.float32]]:
    """Weights of which none is 0 or 1 everywhere, so that each of them matters; variances are positive."""
    rng = np.random.default_rng(1)
    shape = shape_of(config)
    weights = {}
    for name, value in shape.build().init(1).items():
        drawn = np.asarray(value) + 0.2 * rng.standard_normal(value.shape)
        weights[name] = (np.abs(drawn) + 0.1 if name.endswith("variance") else drawn).astype(np.float32)
    return weights


def shape_of(config: ChessNetworkConfig) -> PolicyShape:
    return PolicyShape(
        network=config, observation_shape=(112, 8, 8), actions=1858, layout="channels_first", games=("chess:standard",)
    )


def ours(config: ChessNetworkConfig, weights: Any, planes: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """All outputs of the JAX network, by their names in a model."""
    network = shape_of(config).build()
    found: ChessOutputs = jax.jit(lambda w, x: network.module(w).outputs(jnp.moveaxis(x, 1, -1)))(weights, planes)
    main = config.heads
    expected = {}
    for kind, heads, first in (("policy", found.policy, main.main_policy), ("mlh", found.moves_left, "main")):
        expected |= {named(kind, name, first): np.asarray(x) for name, x in heads.items()}
    for kind, heads in (("wdl", found.value), ("categorical", found.categorical)):
        expected |= {named(kind, name, main.main_value): np.asarray(jax.nn.softmax(x)) for name, x in heads.items()}
    expected |= {named("error", name, main.main_value): np.asarray(x) for name, x in found.error.items()}
    return {name: x.reshape(len(planes), -1) for name, x in expected.items()}


def named(kind: str, name: str, main: str) -> str:
    return f"/output/{kind}" if name == main else f"/output/{kind}/{name}"


def run(data: bytes, planes: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["/input/planes"]
    outputs = [each.name for each in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, {"/input/planes": planes}), strict=True))


QUICK = ("tower", "attention")


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in NETWORKS]
)
def test_every_head_says_what_the_network_says(kind: str) -> None:
    config = NETWORKS[kind]
    weights, planes = perturbed(config), positions(24)
    expected = ours(config, weights, planes)
    data = onnx_bytes(config, weights, input_format=1)
    assert data == onnx_bytes(config, weights, input_format=1)
    as_engine = planes.copy()
    as_engine[:, 109] *= 99
    for count in (1, 24):
        found = run(data, as_engine[:count])
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            scale = max(1.0, float(np.abs(values).max()))
            np.testing.assert_allclose(found[name], values[:count], atol=2e-5 * scale, err_msg=name)


@pytest.mark.slow
def test_a_format_with_counted_hundredths_gets_its_planes_as_they_are() -> None:
    config = NETWORKS["tower"]
    weights, planes = perturbed(config), positions(3, input_format=4)
    found = run(onnx_bytes(config, weights, input_format=4), planes)
    np.testing.assert_allclose(found["/output/wdl"], ours(config, weights, planes)["/output/wdl"], atol=1e-5)


def test_the_file_states_what_it_is() -> None:
    config = NETWORKS["attention"]
    model = onnx.load_from_string(onnx_bytes(config, perturbed(config), input_format=3, steps=12, name="net"))
    stated = {each.key: each.value for each in model.metadata_props}
    assert ChessAttentionConfig.model_validate_json(stated["network"]) == config
    assert (stated["input_format"], stated["rule50"], stated["training_steps"]) == ("3", "plies", "12")
    assert (model.graph.name, model.opset_import[0].version) == ("net", 17)
    assert [each.name for each in model.graph.output][:2] == ["/output/policy", "/output/policy/soft"]


@pytest.mark.skipif(not MAIA.is_file(), reason=f"{MAIA} is not there")
def test_a_real_network_stays_the_same() -> None:
    network, planes = read_network(MAIA), positions(40)
    expected = ours(network.config, network.weights, planes)
    planes[:, 109] *= 99
    found = run(onnx_bytes(network.config, network.weights, input_format=network.input_format), planes)
    np.testing.assert_allclose(found["/output/policy"], expected["/output/policy"], atol=1e-4)
    np.testing.assert_allclose(found["/output/wdl"], expected["/output/wdl"], atol=1e-5)
