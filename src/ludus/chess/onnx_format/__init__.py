"""Chess networks as ONNX models, for any program that runs them."""

from ludus.chess.onnx_format.model import onnx_bytes

__all__ = ["onnx_bytes"]
