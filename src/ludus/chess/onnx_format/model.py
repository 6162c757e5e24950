"""A chess network as one ONNX model.

Input and main outputs have the names, shapes and meaning of lc0's own ONNX networks: `/input/planes`
`[B, 112, 8, 8]` as the engine shows them (plane 109 counts plies in input formats 1 to 3), `/output/policy` `[B, 1858]`
logits, `/output/wdl` `[B, 3]` probabilities, `/output/mlh` `[B, 1]` plies. All other heads follow under their own
names, as `/output/policy/soft`. The batch has any size. Invariant: the same network gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper

from ludus import __version__
from ludus.chess.lc0_format.schema import RAW_RULE50
from ludus.chess.lc0_format.tensors import RULE50_PLANE, RULE50_SCALE
from ludus.chess.onnx_format import layers
from ludus.chess.onnx_format.graph import Graph
from ludus.config.sections.chess import CHESS_MOVES, CHESS_PLANES, ChessNetworkConfig, ChessResidualConfig
from ludus.errors import ConfigError

OPSET, IR_VERSION = 17, 8
INPUT = "/input/planes"
MOST_BYTES = (1 << 31) - 1
"""Of a protobuf message."""


def onnx_bytes(
    config: ChessNetworkConfig, weights: Mapping[str, Any], *, input_format: int = 1, steps: int = 0, name: str = ""
) -> bytes:
    """The file of a network; `name` is the graph's.

    Raises:
        ConfigError: it is too large for one file.
    """
    if sum(np.asarray(each).nbytes for each in weights.values()) > MOST_BYTES:
        raise ConfigError("a network of more than 2 GiB does not fit into one ONNX file; write .pb.gz")
    graph = Graph({key: np.asarray(tensor) for key, tensor in weights.items()})
    made = _heads(graph, config, _seen(graph, input_format))
    for output, (edge, _) in made.items():
        graph.op("Identity", output, edge)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name or config.kind,
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", CHESS_PLANES, 8, 8])],
            [
                helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", size])
                for output, (_, size) in made.items()
            ],
            list(graph.constants.values()),
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="ludus",
        producer_version=__version__,
    )
    helper.set_model_props(model, _statement(config, input_format, steps))
    checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _statement(config: ChessNetworkConfig, input_format: int, steps: int) -> dict[str, str]:
    """What a reader of the file can know of the network besides its operators."""
    heads = config.heads
    return {
        "input_format": str(input_format),
        "rule50": "plies" if input_format in RAW_RULE50 else "plies / 100",
        "network": json.dumps(config.model_dump(mode="json"), sort_keys=True),
        "main_policy": heads.main_policy,
        "main_value": heads.main_value,
        "training_steps": str(steps),
    }


def _seen(graph: Graph, input_format: int) -> str:
    """The planes as the network was trained on them."""
    if input_format not in RAW_RULE50:
        return INPUT
    scales = np.ones((1, CHESS_PLANES, 1, 1), np.float32)
    scales[0, RULE50_PLANE] = 1 / RULE50_SCALE
    return graph.op("Mul", "planes", INPUT, graph.constant("planes.scales", scales))


def _heads(graph: Graph, config: ChessNetworkConfig, planes: str) -> dict[str, tuple[str, int]]:
    """Edge and size of each output."""
    heads, activation = config.heads, config.activation
    if isinstance(config, ChessResidualConfig):
        frozen: bool | None = config.norm == "frozen"
        features, width, policy_activation = layers.tower(graph, config, planes), config.filters, "selu"
    else:
        frozen, width, policy_activation = None, config.width, activation
        features = layers.attention_body(graph, config, planes)
    needs_rows = frozen is not None and any(head.kind == "attention" for head in heads.policy.values())
    rows = layers.rows_of_squares(graph, "features", features, width) if needs_rows else features
    made: dict[str, tuple[str, int]] = {}
    for name, policy in heads.policy.items():
        layer, output = f"policy.{name}", _output("policy", name, heads.main_policy)
        if policy.kind == "convolution":
            edge = layers.convolutional_policy(graph, layer, features, activation, frozen_norm=bool(frozen))
        else:
            edge = layers.attention_policy(graph, layer, policy, rows, width, policy_activation)
        made[output] = edge, CHESS_MOVES
    for name, value in heads.value.items():
        layer = f"value.{name}"
        hidden = layers.value_hidden(graph, layer, features, value.channels, activation, frozen)
        sizes = {"wdl": 3, "error": 1, "categorical": value.buckets}
        for kind, edge in layers.value_outputs(graph, layer, value, hidden).items():
            made[_output(kind, name, heads.main_value)] = edge, sizes[kind]
    for name, left in heads.moves_left.items():
        layer = f"moves_left.{name}"
        hidden = layers.value_hidden(graph, layer, features, left.channels, activation, frozen)
        made[_output("mlh", name, "main")] = graph.activate(activation, graph.dense(f"{layer}.plies", hidden)), 1
    return made


def _output(kind: str, name: str, main: str) -> str:
    return f"/output/{kind}" if name == main else f"/output/{kind}/{name}"
