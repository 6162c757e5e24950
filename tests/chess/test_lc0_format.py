"""lc0 files: what goes in comes out, what they state is true, and what is damaged is refused with place and reason."""

from __future__ import annotations

import gzip
from pathlib import Path

import jax
import numpy as np
import pytest

from ludus.chess.lc0_format import network_bytes, parse_network, read_network, write_network
from ludus.chess.lc0_format.layer_codec import decode_layer, encode_layer
from ludus.chess.lc0_format.schema import NET
from ludus.chess.lc0_format.wire import UNKNOWN, decode, encode
from ludus.config.sections.chess import (
    ChessAttentionConfig,
    ChessHeadsConfig,
    ChessNetworkConfig,
    ChessPolicyHeadConfig,
    ChessResidualConfig,
    ChessValueHeadConfig,
    SmolgenConfig,
)
from ludus.errors import CorruptRecord
from ludus.policies.networks import PolicyNetwork

ATTENTION = ChessAttentionConfig(
    kind="chess_attention",
    layers=2,
    width=16,
    heads_per_layer=2,
    feed_forward=24,
    position=4,
    smolgen=SmolgenConfig(compressed=2, inner=8, size=4),
    activation="mish",
    feed_forward_activation="relu_2",
    heads=ChessHeadsConfig(
        policy={
            "vanilla": ChessPolicyHeadConfig(embedding=16, width=16),
            "soft": ChessPolicyHeadConfig(embedding=16, width=8),
            "own": ChessPolicyHeadConfig(embedding=8, width=8),
        },
        value={
            "winner": ChessValueHeadConfig(channels=4, inner=8),
            "st": ChessValueHeadConfig(channels=4, inner=8, error=True, buckets=5),
            "zany": ChessValueHeadConfig(channels=4, inner=8),
        },
    ),
)
TOWER = ChessResidualConfig(kind="chess_residual", blocks=2, filters=8, squeeze=4, activation="mish")
ATTENTION_ON_TOWER = ChessResidualConfig(
    kind="chess_residual",
    blocks=1,
    filters=8,
    squeeze=4,
    norm="frozen",
    heads=ChessHeadsConfig(policy={"vanilla": ChessPolicyHeadConfig(embedding=8, width=8)}),
)
CONFIGS: list[ChessNetworkConfig] = [ATTENTION, TOWER, ATTENTION_ON_TOWER]


def network_of(config: ChessNetworkConfig) -> PolicyNetwork:
    return PolicyNetwork(config, observation_shape=(112, 8, 8), actions=1858, layout="channels_first")


def weights_of(config: ChessNetworkConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """Weights none of which is zero or one, so that none can be mistaken for another."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.uniform(0.05, 0.6, shape).astype(np.float32) * generator.choice([-1, 1])
        if not name.endswith("variance")
        else generator.uniform(0.5, 2.0, shape).astype(np.float32)
        for name, shape in sorted(network_of(config).shapes().items())
    }


@pytest.mark.parametrize("config", CONFIGS, ids=lambda each: each.kind)
@pytest.mark.parametrize("encoding", ["LINEAR16", "FLOAT16", "BFLOAT16", "FLOAT32"])
def test_a_network_comes_back_as_it_was_written(config: ChessNetworkConfig, encoding: str) -> None:
    weights = weights_of(config)
    data = network_bytes(config, weights, encoding=encoding, steps=12)
    found = parse_network(data)
    assert found.config == config
    assert found.weights.keys() == weights.keys()
    loose = {"LINEAR16": 2e-5, "FLOAT16": 1e-3, "BFLOAT16": 8e-3, "FLOAT32": 1e-6}[encoding]
    for name, value in weights.items():
        # What multiplies the plies is written divided by 99, with the resolution of its layer.
        atol = 99 * loose if encoding == "LINEAR16" and name in ("body.stem.kernel", "body.embedding.kernel") else loose
        np.testing.assert_allclose(found.weights[name], value, atol=atol, err_msg=name)
    assert network_bytes(found.config, found.weights, like=found.message) == data
    planes = np.random.default_rng(1).uniform(0, 1, (3, 112, 8, 8)).astype(np.float32)
    if encoding == "FLOAT32":
        ours, theirs = (jax.jit(network_of(config).apply)(each, planes) for each in (weights, found.weights))
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(ours[1], theirs[1], atol=1e-4)


def test_the_file_states_what_the_network_computes() -> None:
    attention = parse_network(network_bytes(ATTENTION, weights_of(ATTENTION), input_format=3)).message
    form = attention["format"]["network_format"]
    expected = {"input": 3, "output": 2, "network": 7, "policy": 3, "value": 2, "moves_left": 1}
    expected |= {"default_activation": 1, "smolgen_activation": 7, "ffn_activation": 8, "input_embedding": 2}
    assert form == expected
    assert attention["min_version"]["minor"] == 31
    tower = parse_network(network_bytes(TOWER, weights_of(TOWER))).message["format"]["network_format"]
    assert (tower["network"], tower["policy"], tower["default_activation"]) == (4, 2, 1)


def test_the_engine_sees_plies_where_we_see_them_divided_by_99() -> None:
    weights = weights_of(TOWER)
    for form, scale in ((1, 1 / 99), (4, 1.0)):
        message = parse_network(network_bytes(TOWER, weights, input_format=form, encoding="FLOAT32")).message
        kernel = decode_layer(message["weights"]["input"]["weights"], "").reshape(8, 112, 3, 3)
        ours = weights["body.stem.kernel"].transpose(3, 2, 0, 1)
        np.testing.assert_allclose(kernel[:, 109], ours[:, 109] * scale, rtol=1e-6)
        np.testing.assert_array_equal(kernel[:, 108], ours[:, 108])


def test_heads_without_a_place_in_the_format_are_named(tmp_path: Path) -> None:
    heads = ChessHeadsConfig(
        policy={"vanilla": ChessPolicyHeadConfig(kind="convolution"), "soft": ChessPolicyHeadConfig(kind="convolution")}
    )
    config = TOWER.model_copy(update={"heads": heads})
    assert write_network(tmp_path / "x.pb.gz", config, weights_of(config)) == ["policy.soft"]
    assert read_network(tmp_path / "x.pb.gz").config.heads.policy.keys() == {"vanilla"}
    assert write_network(tmp_path / "y.pb.gz", ATTENTION, weights_of(ATTENTION)) == []


def test_batch_norms_that_are_not_whole_are_folded() -> None:
    weights = weights_of(ATTENTION_ON_TOWER)
    net = decode(NET, memoryview(network_bytes(ATTENTION_ON_TOWER, weights, encoding="FLOAT32")))
    net["weights"]["value"]["biases"] = encode_layer(np.full(32, 0.25, np.float32), "FLOAT32")
    found = parse_network(encode(NET, net))
    assert found.config.norm == "none"  # type: ignore[union-attr]
    planes = np.random.default_rng(1).uniform(0, 1, (3, 112, 8, 8)).astype(np.float32)
    shifted = {**weights, "value.winner.trunk.squares.mean": weights["value.winner.trunk.squares.mean"] - 0.25}
    ours, theirs = (
        network_of(ATTENTION_ON_TOWER).apply(shifted, planes),
        network_of(found.config).apply(found.weights, planes),
    )
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-4)


def test_unknown_fields_are_kept() -> None:
    data = network_bytes(TOWER, weights_of(TOWER))
    extra = b"\x9a\x06\x03abc"  # field 99, three bytes
    found = parse_network(data + extra)
    assert found.message[UNKNOWN] == extra
    assert network_bytes(found.config, found.weights, like=found.message) == data + extra


def test_numbers_survive_the_encodings() -> None:
    values = np.array([-1.5, 0.0, 3.25, 65000.0, 1e-3], np.float32)
    for encoding in ("LINEAR16", "FLOAT16", "BFLOAT16", "FLOAT32"):
        layer = encode_layer(values, encoding)
        found = decode_layer(layer, "")
        np.testing.assert_allclose(found, values, rtol=5e-3, atol=1.0 if encoding == "LINEAR16" else 1e-6)
        assert encode_layer(found, encoding) == layer
    constant = np.full(4, 0.7, np.float32)
    np.testing.assert_array_equal(decode_layer(encode_layer(constant), ""), constant)
    with pytest.raises(ValueError, match="not finite"):
        encode_layer(np.array([np.nan], np.float32))


def test_every_truncation_is_refused_with_a_place(tmp_path: Path) -> None:
    data = network_bytes(TOWER, weights_of(TOWER))
    path = tmp_path / "cut.pb"
    for size in [*range(0, 64), *range(64, len(data), len(data) // 60)]:
        path.write_bytes(data[:size])
        with pytest.raises(CorruptRecord, match=r"cut\.pb: "):
            read_network(path)
    packed = gzip.compress(data)
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(CorruptRecord, match="truncated or damaged"):
        read_network(path)


def test_damage_never_escapes_as_another_error(tmp_path: Path) -> None:
    data = network_bytes(TOWER, weights_of(TOWER))
    generator = np.random.default_rng(3)
    refused = 0
    for _ in range(200):
        hurt = bytearray(data)
        for place in generator.integers(0, 60, 2):
            hurt[place] = generator.integers(0, 256)
        try:
            parse_network(bytes(hurt))
        except CorruptRecord:
            refused += 1
    assert refused > 50


def test_a_bomb_is_refused_before_it_fills_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pb.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(CorruptRecord, match="more than 1000000 bytes"):
        read_network(path, most_bytes=1_000_000)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("network", 1, "network: 1"),
        ("output", 1, "OUTPUT_WDL"),
        ("policy", 1, "policy: 1"),
        ("default_activation", 7, "relu"),
    ],
)
def test_networks_beyond_us_are_refused_by_name(field: str, value: int, says: str) -> None:
    net = decode(NET, memoryview(network_bytes(TOWER, weights_of(TOWER))))
    net["format"]["network_format"][field] = value
    with pytest.raises(CorruptRecord, match=says):
        parse_network(encode(NET, net))
