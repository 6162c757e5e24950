"""An ONNX graph under construction: operators in order, and the weights they use.

Values are named by the layer that makes them, as `body.blocks.0.first`. Only operators of opset 17 are used, which is
also the opset of lc0's own exports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

Array = NDArray[Any]
BATCH_NORM_EPS = 1e-5
LAYER_NORM_EPS = 1e-3


class Graph:
    """Adds layers of a network by the names of its weights. A value is the name of an edge."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def op(self, kind: str, name: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add an operator; returns its (first) output. Others are `name.1`, `name.2`, ..."""
        edges = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, list(inputs), edges, name=name, **attributes))
        return name

    def constant(self, name: str, values: Array | Sequence[int]) -> str:
        """Add a tensor: float32, or int64 for shapes and indices."""
        array = np.asarray(values)
        array = np.ascontiguousarray(array, np.int64 if array.dtype.kind in "iu" else np.float32)
        self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def reshape(self, name: str, x: str, shape: Sequence[int]) -> str:
        """One axis may be -1; it is the one that has the batch in it."""
        return self.op("Reshape", name, x, self.constant(f"{name}.shape", list(shape)))

    def dense(self, layer: str, x: str, *, use_bias: bool = True) -> str:
        """A linear layer on `[N, I]`."""
        product = layer if not use_bias else f"{layer}.product"
        self.op("MatMul", product, x, self.constant(f"{layer}.kernel", self.weights[f"{layer}.kernel"]))
        if not use_bias:
            return product
        return self.op("Add", layer, product, self.constant(f"{layer}.bias", self.weights[f"{layer}.bias"]))

    def convolution(self, layer: str, x: str, *, frozen_norm: bool) -> str:
        """A square convolution on `[B, I, 8, 8]`, with its batch norm folded in."""
        kernel, bias = self._folded(layer, frozen_norm)
        size = kernel.shape[0]
        return self.op(
            "Conv",
            layer,
            x,
            self.constant(f"{layer}.kernel", kernel.transpose(3, 2, 0, 1)),
            self.constant(f"{layer}.bias", bias),
            kernel_shape=[size, size],
            pads=[size // 2] * 4,
        )

    def layer_norm(self, layer: str, x: str) -> str:
        """Over the last axis."""
        parts = [self.constant(f"{layer}.{name}", self.weights[f"{layer}.{name}"]) for name in ("scale", "bias")]
        return self.op("LayerNormalization", layer, x, *parts, axis=-1, epsilon=LAYER_NORM_EPS)

    def activate(self, activation: str, x: str) -> str:
        """An activation by its name in configs."""
        name = f"{x}.{activation}"
        if activation == "none":
            return x
        if activation == "mish":  # an operator of its own comes with opset 18
            soft = self.op("Softplus", f"{name}.softplus", x)
            return self.op("Mul", name, x, self.op("Tanh", f"{name}.tanh", soft))
        if activation == "swish":
            return self.op("Mul", name, x, self.op("Sigmoid", f"{name}.sigmoid", x))
        if activation == "relu_2":
            positive = self.op("Relu", f"{name}.relu", x)
            return self.op("Mul", name, positive, positive)
        return self.op(_OPERATORS[activation], name, x)

    def scaled(self, name: str, x: str, factor: float) -> str:
        """`x` times a number."""
        return self.op("Mul", name, x, self.constant(f"{name}.factor", np.float32(factor).reshape(1)))

    def _folded(self, layer: str, frozen_norm: bool) -> tuple[Array, Array]:
        kernel = np.asarray(self.weights[f"{layer}.kernel"], np.float32)
        if not frozen_norm:
            return kernel, np.asarray(self.weights[f"{layer}.bias"])
        names = ("gamma", "beta", "mean", "variance")
        gamma, beta, mean, variance = (np.asarray(self.weights[f"{layer}.{name}"], np.float32) for name in names)
        scale = gamma / np.sqrt(variance + np.float32(BATCH_NORM_EPS))
        return kernel * scale, beta - mean * scale


_OPERATORS = {"relu": "Relu", "selu": "Selu", "tanh": "Tanh", "sigmoid": "Sigmoid"}
