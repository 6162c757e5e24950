"""What a network is, in words and numbers: formats, body, heads, parameters, weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ludus.chess.lc0_format import omitted_heads
from ludus.chess.lc0_format.configs import stated
from ludus.chess.lc0_format.schema import ENCODINGS, RAW_RULE50
from ludus.chess.network_source import NetworkSource
from ludus.config import ChessAttentionConfig, ChessNetworkConfig, ChessResidualConfig

INPUTS = {
    1: "classical, 112 planes",
    2: "112 planes, castling as rook squares",
    3: "canonical",
    4: "canonical, rule 50 in hundredths",
    5: "canonical, repeated positions only",
    132: "canonical, rule 50 in hundredths, armageddon",
    133: "canonical, repeated positions only, armageddon",
}
_NETWORKS = {4: "residual tower", 6: "attention body", 7: "attention body with several heads"}
_POLICIES = {2: "convolutional policy", 3: "attention policy"}
_ENCODINGS = {number: name for name, number in ENCODINGS.items()}


def describe(source: NetworkSource, text: str) -> dict[str, Any]:
    """Facts by name; values are numbers, texts or lists of texts."""
    network = source.chess_network()
    facts: dict[str, Any] = {"network": text, "is": _kind(source, text), **_body(network)}
    facts |= {"activations": _activations(network), "heads": _heads(network)}
    facts["main_heads"] = f"policy {network.heads.main_policy}, value {network.heads.main_value}"
    form = source.input_format
    scale = "plies / 99 when training, plies in the engine" if form in RAW_RULE50 else "plies / 100"
    facts["input_format"] = f"{form}: {INPUTS[form]}; rule 50 as {scale}"
    facts |= _parameters(source) | {"training_steps": source.steps}
    facts |= _file(source, text) if source.file is not None else _run(source)
    facts["lc0_from_version"] = ".".join(map(str, stated(network, form)[1]))
    if omitted := omitted_heads(network):
        facts["not_in_pb_gz"] = [f"{head} (ONNX and ludus have it)" for head in omitted]
    return facts


def tensor_rows(source: NetworkSource) -> list[dict[str, Any]]:
    """Each tensor: name, shape, and how its numbers lie."""
    rows = []
    for name, tensor in sorted(source.weights.items()):
        values = np.asarray(tensor, np.float64)
        shape = "x".join(map(str, values.shape))
        numbers = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
        rows.append({"name": name, "shape": shape, **{key: float(number) for key, number in numbers.items()}})
    return rows


def _kind(source: NetworkSource, text: str) -> str:
    if source.file is not None:
        return "an lc0 network file"
    if source.run is not None:
        what = source.version if source.version.startswith("checkpoint") else f"version {source.version}"
        return f"{what} of the run {source.run.path}"
    return f"an exported version, {source.version}"


def _body(network: ChessNetworkConfig) -> dict[str, Any]:
    if isinstance(network, ChessResidualConfig):
        squeeze = f"squeeze-excitation of {network.squeeze}" if network.squeeze else "no squeeze-excitation"
        norm = "batch norm with fixed statistics" if network.norm == "frozen" else "no norm"
        return {"body": f"residual tower, {network.blocks} blocks x {network.filters} filters, {squeeze}, {norm}"}
    smolgen = network.smolgen
    smol = "no smolgen" if smolgen is None else f"smolgen {smolgen.compressed}/{smolgen.inner}/{smolgen.size}"
    inner = network.feed_forward or network.width
    return {
        "body": f"attention, {network.layers} layers x {network.width} wide, {network.heads_per_layer} heads each, "
        f"feed-forward {inner}, {smol}"
    }


def _activations(network: ChessNetworkConfig) -> str:
    text: str = network.activation
    if isinstance(network, ChessAttentionConfig):
        if network.feed_forward_activation not in ("default", network.activation):
            text += f", feed-forward {network.feed_forward_activation}"
        if network.smolgen is not None:
            named = network.smolgen.activation
            text += f", smolgen {network.activation if named == 'default' else named}"
    elif any(head.kind == "attention" for head in network.heads.policy.values()):
        text += ", attention policy selu"
    return text


def _heads(network: ChessNetworkConfig) -> list[str]:
    heads = network.heads
    found = [f"policy {name}: {head.kind}" for name, head in heads.policy.items()]
    for name, value in heads.value.items():
        extra = [*(["error"] if value.error else []), *([f"{value.buckets} buckets"] if value.buckets else [])]
        found.append(f"value {name}: win, draw, loss{''.join(', ' + each for each in extra)}")
    return [*found, *(f"moves left {name}" for name in heads.moves_left)]


def _parameters(source: NetworkSource) -> dict[str, Any]:
    sizes: dict[str, int] = {}
    for name, tensor in source.weights.items():
        part = name.split(".")[0]
        sizes[part] = sizes.get(part, 0) + int(np.size(tensor))
    parts = ", ".join(f"{part} {size:,}" for part, size in sizes.items())
    return {"parameters": sum(sizes.values()), "of_these": parts, "tensors": len(source.weights)}


def _file(source: NetworkSource, text: str) -> dict[str, Any]:
    message: Any = source.file.message if source.file is not None else {}
    minimum, form = message.get("min_version", {}), message.get("format", {}).get("network_format", {})
    version = ".".join(str(minimum.get(part, 0)) for part in ("major", "minor", "patch"))
    encodings = sorted({_ENCODINGS.get(number, str(number)) for number in _found_encodings(message.get("weights", {}))})
    return {
        "file_bytes": Path(text).stat().st_size,
        "file_states": f"lc0 {version} or newer, {_NETWORKS.get(form.get('network', 0))}, "
        f"{_POLICIES.get(form.get('policy', 0))}, WDL, {'' if form.get('moves_left') else 'no '}moves left",
        "encodings": encodings,
        **({"license": str(message["license"])} if message.get("license") else {}),
    }


def _found_encodings(message: Any) -> set[int]:
    if isinstance(message, list):
        return {each for item in message for each in _found_encodings(item)}
    if not isinstance(message, dict):
        return set()
    if "params" in message:
        return {int(message.get("encoding") or ENCODINGS["LINEAR16"])}
    return {each for value in message.values() for each in _found_encodings(value)}


def _run(source: NetworkSource) -> dict[str, Any]:
    if source.run is None or source.config is None:
        return {}
    from ludus.policies import PolicyStore
    from ludus.storage.checkpoints import CheckpointStore

    name = source.config.policy.name
    versions = [ref.version for ref in PolicyStore(source.run.policies).versions(name)]
    checkpoints = CheckpointStore(source.run.checkpoints, keep=1).list()
    loader, train = source.config.buffer.loader, source.config.train
    facts: dict[str, Any] = {
        "versions": f"{len(versions)}: {name}@{versions[0]} to {name}@{versions[-1]}" if versions else "none",
        "checkpoints": f"{len(checkpoints)}, the newest after update {checkpoints[-1]:,}" if checkpoints else "none",
        "losses": [f"{term.loss} x {term.weight:g}" for term in train.algorithm.objective or ()],
        "optimizer": f"{train.optimizer.kind}, learning rate {train.optimizer.learning_rate:g}",
    }
    if loader is not None:
        facts["chunks"] = str(loader.options.get("directory", ""))
    return facts
