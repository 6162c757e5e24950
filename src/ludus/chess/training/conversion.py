"""A network in another form: lc0's `.pb.gz`, ONNX, or a run directory of ludus. The name of the target says which."""

from __future__ import annotations

from pathlib import Path

from ludus.chess.lc0_format import compressed, network_bytes, omitted_heads
from ludus.chess.lc0_format.schema import ENCODINGS
from ludus.chess.network_source import NetworkSource
from ludus.chess.training.config_text import Plan, config_text
from ludus.chess.training.starts import write_start
from ludus.config import ChessNetworkConfig
from ludus.errors import ConfigError
from ludus.extras import need_packages
from ludus.storage.atomic import ensure_directory, write_bytes

SUFFIXES = (".pb.gz", ".onnx")


def convert(source: NetworkSource, target: Path, *, encoding: str = "LINEAR16", replace: bool = False) -> list[str]:
    """Write a network, whole or not at all. Returns the heads that the form has no place for."""
    network = source.chess_network()
    if not target.name.endswith(SUFFIXES):
        if target.suffix in (".pb", ".gz", ".safetensors", ".pt", ".h5"):
            raise ConfigError(f"{target}: write NAME.pb.gz, NAME.onnx, or a directory's name for a run of ludus")
        text = config_text(
            Plan(name="converted", directory="chunks", network=network, input_format=source.input_format)
        )
        write_start(target, text, source.weights, steps=source.steps)
        return []
    if target.exists() and not replace:
        raise ConfigError(f"{target} exists; choose another name, or replace it with --force")
    content = _onnx(source, network) if target.suffix == ".onnx" else _lc0(source, network, encoding)
    ensure_directory(target.parent)
    write_bytes(target, content)
    return omitted_heads(network) if target.suffix != ".onnx" else []


def _lc0(source: NetworkSource, network: ChessNetworkConfig, encoding: str) -> bytes:
    if encoding not in ENCODINGS:
        raise ConfigError(f"--encoding {encoding}: expected {', '.join(ENCODINGS)}")
    like = source.file.message if source.file is not None and encoding == "LINEAR16" else None
    data = network_bytes(
        network,
        source.weights,
        input_format=source.input_format,
        encoding=encoding,
        steps=source.steps,
        like=like,
    )
    return compressed(data)


def _onnx(source: NetworkSource, network: ChessNetworkConfig) -> bytes:
    need_packages("an ONNX file", "onnx")
    from ludus.chess.onnx_format import onnx_bytes

    return onnx_bytes(network, source.weights, input_format=source.input_format, steps=source.steps, name=source.name)
