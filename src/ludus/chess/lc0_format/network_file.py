"""lc0 networks (`.pb.gz`): read into a config and weights of ours, and written from them.

Invariants: a reader of a final name sees a whole network; what is read and written back unchanged has the same bytes
(of the protobuf; the gzip around them is ours); a file that is truncated, hostile or beyond us is refused with its
name, the place and the reason.
"""

from __future__ import annotations

import gzip
import io
import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ludus.chess.lc0_format import schema
from ludus.chess.lc0_format.configs import config_of, input_format_of, stated
from ludus.chess.lc0_format.layer_codec import decode_layer, encode_layer
from ludus.chess.lc0_format.tensors import Path, Tensor, from_layer, head_paths, omitted_heads, tensors_of, to_layer
from ludus.chess.lc0_format.wire import Message, decode, encode
from ludus.config.sections.chess import (
    CHESS_MOVES,
    CHESS_PLANES,
    ChessAttentionConfig,
    ChessNetworkConfig,
    ChessResidualConfig,
)
from ludus.errors import CorruptRecord
from ludus.storage.atomic import write_bytes

log = logging.getLogger(__name__)

MOST_BYTES = 4 << 30
"""Of a network without compression; more is refused before it is inflated."""
_EPS = 1e-5
Weights = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lc0Network:
    """What a file holds: a network of ours, and the message it came from."""

    config: ChessNetworkConfig
    weights: Weights
    input_format: int
    """The planes that the network wants, a number of lc0's."""
    message: Message
    """Give it to `write_network` as `like`, and what has not changed keeps its bytes."""


def read_network(path: FilePath, *, most_bytes: int = MOST_BYTES) -> Lc0Network:
    """Read an lc0 network, compressed or not.

    Raises:
        CorruptRecord: it is damaged, or a network that ludus cannot play; the text says where and why.
    """
    try:
        return parse_network(_inflated(path, most_bytes))
    except CorruptRecord as error:
        raise CorruptRecord(f"{path}: {error}") from error


def parse_network(data: bytes) -> Lc0Network:
    """The network in an uncompressed file."""
    net = decode(schema.NET, memoryview(data))
    try:
        config = config_of(net)
    except ValidationError as error:
        first = error.errors()[0]
        raise CorruptRecord(f"sizes that no network has: {first['loc']}: {first['msg']}") from None
    except ZeroDivisionError:
        raise CorruptRecord("weights.input: there is no convolution on the planes") from None
    form = input_format_of(net)
    return Lc0Network(config=config, weights=_weights(config, net["weights"], form), input_format=form, message=net)


def write_network(
    path: FilePath,
    config: ChessNetworkConfig,
    weights: Mapping[str, Any],
    *,
    input_format: int = 1,
    encoding: str = "LINEAR16",
    steps: int = 0,
    like: Message | None = None,
) -> list[str]:
    """Write a network for lc0, whole or not at all. Returns the heads that the format has no place for."""
    data = network_bytes(config, weights, input_format=input_format, encoding=encoding, steps=steps, like=like)
    write_bytes(path, compressed(data))
    if omitted := omitted_heads(config):
        log.warning("%s: lc0's format has no place for the heads %s; they are not in it", path, ", ".join(omitted))
    return omitted


def compressed(data: bytes) -> bytes:
    """A file as lc0 has it; the same bytes for the same data."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as file:
        file.write(data)
    return packed.getvalue()


def network_bytes(
    config: ChessNetworkConfig,
    weights: Mapping[str, Any],
    *,
    input_format: int = 1,
    encoding: str = "LINEAR16",
    steps: int = 0,
    like: Message | None = None,
) -> bytes:
    """The uncompressed file of a network; `like` lends what it says besides weights, and the layers that are equal."""
    if input_format not in schema.INPUT_FORMATS or encoding not in schema.ENCODINGS:
        raise ValueError(f"input format {input_format}, encoding {encoding}: not among lc0's")
    form, (major, minor, patch) = stated(config, input_format)
    net: Message = {
        "magic": schema.MAGIC,
        "min_version": {"major": major, "minor": minor, "patch": patch},
        "format": {"weights_encoding": schema.ENCODINGS["LINEAR16"], "network_format": form},
        "training_params": {"training_steps": steps},
    }
    if like is not None:
        net = {name: value for name, value in like.items() if name != "weights"}
        _check_same_format(form, like)
    message = _empty(config)
    before = like.get("weights", {}) if like is not None else {}
    for tensor in tensors_of(config):
        values = np.asarray(weights[tensor.name], np.float32)
        layer = to_layer(tensor, values, raw_rule50=input_format in schema.RAW_RULE50)
        _place(message, tensor.path, encode_layer(layer, encoding, _find(before, tensor.path)))
    return encode(schema.NET, {**net, "weights": message})


def _check_same_format(form: Message, like: Message) -> None:
    theirs = like.get("format", {}).get("network_format", {})
    changed = sorted(name for name, value in form.items() if theirs.get(name, 0) != value)
    if changed:
        raise ValueError(f"the network differs from the file it should be like in {', '.join(changed)}")


def _empty(config: ChessNetworkConfig) -> Message:
    """Weights without layers: what says how many heads there are, and their names."""
    if isinstance(config, ChessResidualConfig):
        return {}
    message: Message = {"headcount": config.heads_per_layer}
    for kind, names in (("policy", tuple(config.heads.policy)), ("value", tuple(config.heads.value))):
        for name, path in head_paths(kind, names).items():
            if path[1] == f"{kind}_head_map":
                _place(message, (*path[:-1], "key"), name)
    return message


def _weights(config: ChessNetworkConfig, message: Message, input_format: int) -> Weights:
    shapes = shapes_of(config)
    raw = input_format in schema.RAW_RULE50
    found = {}
    for tensor in tensors_of(config):
        flat = _flat(config, tensor, message)
        shape = shapes[tensor.name]
        if flat.size != np.prod(shape):
            where = ".".join(map(str, tensor.path))
            raise CorruptRecord(f"weights.{where}: {flat.size} numbers, expected {list(shape)}")
        found[tensor.name] = from_layer(tensor, flat, shape, raw_rule50=raw)
    return found


def shapes_of(config: ChessNetworkConfig) -> dict[str, tuple[int, ...]]:
    """Shape of every weight of a network."""
    return _shapes(type(config), config.model_dump_json())


@lru_cache(maxsize=64)
def _shapes(kind: type[ChessNetworkConfig], config: str) -> dict[str, tuple[int, ...]]:
    from ludus.policies.networks import PolicyNetwork

    return PolicyNetwork(
        kind.model_validate_json(config),
        observation_shape=(CHESS_PLANES, 8, 8),
        actions=CHESS_MOVES,
        layout="channels_first",
    ).shapes()


def _flat(config: ChessNetworkConfig, tensor: Tensor, message: Message) -> NDArray[np.float32]:
    where = "weights." + ".".join(map(str, tensor.path))
    layer = _find(message, tensor.path)
    if isinstance(config, ChessResidualConfig) and config.norm == "none" and tensor.path[-1] in ("weights", "biases"):
        return _folded(_find(message, tensor.path[:-1]) or {}, str(tensor.path[-1]), where)
    if layer is None and isinstance(config, ChessAttentionConfig):
        layer = _shared_embedding(tensor, message)
    if layer is None:
        raise CorruptRecord(f"{where}: missing")
    return decode_layer(layer, where)


def _shared_embedding(tensor: Tensor, message: Message) -> Message | None:
    """The policy embedding that heads without one of their own share."""
    last = str(tensor.path[-1])
    if tensor.path[0] == "policy_heads" and last in ("ip_pol_w", "ip_pol_b"):
        layer: Message | None = _find(message, ("policy_heads", last))
        return layer
    return None


def _folded(block: Message, field: str, where: str) -> NDArray[np.float32]:
    """Kernel or bias of a convolution with its batch norm, if it has one, folded in."""
    if "weights" not in block:
        raise CorruptRecord(f"{where}: missing")
    kernel = decode_layer(block["weights"], where).astype(np.float64)
    bias = decode_layer(block["biases"], where).astype(np.float64) if "biases" in block else np.zeros(1)
    if "bn_means" in block or "bn_stddivs" in block:
        mean, variance = (decode_layer(block.get(name, {}), where) for name in ("bn_means", "bn_stddivs"))
        gamma = decode_layer(block["bn_gammas"], where) if "bn_gammas" in block else np.ones(1)
        beta = decode_layer(block["bn_betas"], where) if "bn_betas" in block else np.zeros(1)
        if not variance.size or mean.size != variance.size or kernel.size % variance.size:
            raise CorruptRecord(f"{where}: a batch norm of {variance.size} channels does not fit")
        scale = gamma / np.sqrt(variance.astype(np.float64) + _EPS)
        bias = beta + (bias - mean) * scale
        kernel = (kernel.reshape(variance.size, -1) * scale[:, None]).reshape(-1)
    return np.asarray(kernel if field == "weights" else bias, np.float32)


def _find(message: Message, path: Path) -> Any:
    found: Any = message
    for step in path:
        is_there = step < len(found) if isinstance(step, int) else step in found
        found = found[step] if is_there else None
        if found is None:
            return None
    return found


def _place(message: Message, path: Path, value: Any) -> None:
    here: Any = message
    for step, following in pairwise(path):
        if isinstance(step, int):
            here.extend({} for _ in range(step + 1 - len(here)))
            here = here[step]
        else:
            here = here.setdefault(step, [] if isinstance(following, int) else {})
    here[path[-1]] = value


def _inflated(path: FilePath, most_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            stream: Any = gzip.GzipFile(fileobj=file) if head == b"\x1f\x8b" else file
            data: bytes = stream.read(most_bytes + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorruptRecord(f"truncated or damaged: {error}") from error
    except OSError as error:
        raise CorruptRecord(f"cannot be read: {error.strerror}") from error
    if len(data) > most_bytes:
        raise CorruptRecord(f"more than {most_bytes} bytes when inflated")
    return data
