"""A version of a chess network as a file of lc0's: the same bytes each time, and read back it is the same network."""

import gzip
import logging
from pathlib import Path

import numpy as np
import pytest

from ludus.chess.lc0_format import parse_network
from ludus.chess.release_files import release_writers
from ludus.config import ChessResidualConfig, MlpConfig, parse_config
from ludus.config.sections.chess import ChessHeadsConfig, ChessPolicyHeadConfig
from ludus.errors import ConfigError
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyName, PolicyRef, PolicyVersion

TEXT = """
name: chess
games: [chess:standard]
buffer: {{loader: {{kind: chess_chunks, options: {{directory: chunks, input_format: {input_format}}}}}}}
"""
CONFIG = parse_config(TEXT.format(input_format=1), "chess.yaml")
REF = PolicyRef(name=PolicyName("main"), version=PolicyVersion(3))


def publish(store: PolicyStore, network: ChessResidualConfig | MlpConfig) -> dict[str, np.ndarray]:
    shape = PolicyShape(
        network=network, observation_shape=(112, 8, 8), actions=1858, layout="channels_first", games=("chess:standard",)
    )
    weights = {name: np.asarray(value) for name, value in shape.build().init(1).items()}
    store.publish(REF, weights, shape, step=77)
    return weights


def test_a_version_becomes_a_network_that_reads_back_the_same(tmp_path: Path) -> None:
    store = PolicyStore(tmp_path)
    config = ChessResidualConfig(kind="chess_residual", blocks=1, filters=8, squeeze=4)
    weights = publish(store, config)
    data = release_writers(store, CONFIG)["lc0"](REF)
    assert data == release_writers(store, CONFIG)["lc0"](REF)
    network = parse_network(gzip.decompress(data))
    assert network.config == config
    assert network.message["training_params"]["training_steps"] == 77
    for name, value in weights.items():
        # 16 bits over a layer's range; the file has the weights of the rule-50 plane divided by 99.
        step = max(float(np.ptp(value)), 1e-6) / 65_535
        bound = np.full(value.shape, step)
        if name == "body.stem.kernel":
            bound[:, :, 109] *= 99
        assert (np.abs(network.weights[name] - value) <= bound).all(), name


def test_another_kind_of_network_is_refused(tmp_path: Path) -> None:
    store = PolicyStore(tmp_path)
    publish(store, MlpConfig(hidden=(4,)))
    with pytest.raises(ConfigError, match="main@3 is a mlp; lc0 loads chess networks only"):
        release_writers(store, CONFIG)["lc0"](REF)


def test_a_file_states_the_planes_that_its_run_trains_on(tmp_path: Path) -> None:
    store = PolicyStore(tmp_path)
    publish(store, ChessResidualConfig(kind="chess_residual", blocks=0, filters=4))
    writers = release_writers(store, parse_config(TEXT.format(input_format=4), "chess.yaml"))
    assert parse_network(gzip.decompress(writers["lc0"](REF))).input_format == 4
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    model = onnx.load_from_string(writers["onnx"](REF))
    stated = {each.key: each.value for each in model.metadata_props}
    assert (stated["input_format"], stated["training_steps"], model.graph.name) == ("4", "77", "chess-main-3")


def test_heads_that_a_format_has_no_place_for_are_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = PolicyStore(tmp_path)
    heads = ChessHeadsConfig(
        policy={name: ChessPolicyHeadConfig(kind="convolution") for name in ("vanilla", "soft")},
    )
    publish(store, ChessResidualConfig(kind="chess_residual", blocks=0, filters=4, heads=heads))
    writers = release_writers(store, CONFIG)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            writers["lc0"](REF)
    assert [record.getMessage() for record in caplog.records] == [
        "cycle.release: lc0's format has no place for the heads policy.soft; format: onnx has them all"
    ]
