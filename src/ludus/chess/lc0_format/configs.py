"""The network config that a file states, and the statement that a file makes of a config.

Invariant: `stated` says nothing that the network does not compute; `config_of` refuses what our networks cannot
compute, with the field that says so.
"""

from __future__ import annotations

from typing import Any

from ludus.chess.lc0_format import schema
from ludus.chess.lc0_format.layer_codec import layer_size
from ludus.chess.lc0_format.wire import Message
from ludus.config.sections.chess import (
    ChessAttentionConfig,
    ChessHeadsConfig,
    ChessMovesLeftHeadConfig,
    ChessNetworkConfig,
    ChessPolicyHeadConfig,
    ChessResidualConfig,
    ChessValueHeadConfig,
    SmolgenConfig,
)
from ludus.errors import CorruptRecord

_NORM_FIELDS = ("bn_means", "bn_stddivs", "bn_gammas", "bn_betas")
_VERSIONS = {"chess_residual": (0, 21, 0), "mish": (0, 29, 0), "chess_attention": (0, 31, 0)}
"""First engine that plays such a network."""


def stated(config: ChessNetworkConfig, input_format: int) -> tuple[Message, tuple[int, int, int]]:
    """A file's network format, and the first version of the engine that can play the network."""
    heads = config.heads
    form: Message = {
        "input": input_format,
        "output": schema.OUTPUT_WDL,
        "network": schema.NETWORK_SE,
        "policy": schema.POLICY_ATTENTION,
        "value": schema.VALUE_WDL,
        "moves_left": schema.MOVES_LEFT_V1 if "main" in heads.moves_left else schema.MOVES_LEFT_NONE,
        "default_activation": schema.DEFAULT_ACTIVATIONS[config.activation],
    }
    version = _VERSIONS[config.kind]
    if isinstance(config, ChessResidualConfig):
        if heads.policy[heads.main_policy].kind == "convolution":
            form["policy"] = schema.POLICY_CONVOLUTION
        return form, max(version, _VERSIONS["mish"]) if config.activation == "mish" else version
    form["network"] = schema.NETWORK_MULTIHEAD
    smolgen = "default" if config.smolgen is None else config.smolgen.activation
    form["smolgen_activation"] = schema.ACTIVATIONS[smolgen]
    form["ffn_activation"] = schema.ACTIVATIONS[config.feed_forward_activation]
    form["input_embedding"] = schema.EMBEDDING_DENSE
    return form, version


def input_format_of(net: Message) -> int:
    """The planes that a network of this file wants."""
    form = _form(net)
    found = int(form.get("input", 1))
    if found not in schema.INPUT_FORMATS:
        raise CorruptRecord(f"format.network_format.input: {found} is no known input format")
    return found


def config_of(net: Message) -> ChessNetworkConfig:
    """The config of the network in a file."""
    form, weights = _form(net), net.get("weights")
    if not weights:
        raise CorruptRecord("the file holds no weights (an ONNX network?)")
    _expect(form, "output", {schema.OUTPUT_WDL: ""}, "a value head that gives win, draw and loss (OUTPUT_WDL)")
    _expect(form, "value", {schema.VALUE_WDL: ""}, "a value head that gives win, draw and loss (VALUE_WDL)")
    network = form.get("network")
    if network == schema.NETWORK_SE:
        return _tower(form, weights)
    if network == schema.NETWORK_MULTIHEAD:
        return _attention(form, weights)
    raise CorruptRecord(
        f"format.network_format.network: {network}; networks of the kinds {schema.NETWORK_SE} (residual with "
        f"squeeze-excitation) and {schema.NETWORK_MULTIHEAD} (attention body with several heads) can be read"
    )


def has_norm(weights: Message) -> bool:
    """Whether every convolution of a tower but the last of the policy has a whole batch norm and no bias."""
    blocks = [block.get(name, {}) for block in weights.get("residual", ()) for name in ("conv1", "conv2")]
    heads = [weights[name] for name in ("policy1", "value", "moves_left") if name in weights]
    convolutions = [weights.get("input", {}), *blocks, *heads]
    return all(
        all(layer_size(each.get(field)) for field in _NORM_FIELDS) and not layer_size(each.get("biases"))
        for each in convolutions
    )


def _form(net: Message) -> Message:
    if net.get("magic") != schema.MAGIC:
        raise CorruptRecord(f"not an lc0 network: magic {net.get('magic', 0):#x}, expected {schema.MAGIC:#x}")
    form: Message = net.get("format", {}).get("network_format", {})
    return form


def _expect(form: Message, field: str, known: dict[int, str], what: str) -> str:
    found = form.get(field, 0)
    if found not in known:
        raise CorruptRecord(f"format.network_format.{field}: {found}; ludus needs {what}")
    return known[found]


def _activation(form: Message) -> Any:
    names = {number: name for name, number in schema.DEFAULT_ACTIVATIONS.items()}
    return _expect(form, "default_activation", names, "relu (0) or mish (1)")


def _tower(form: Message, weights: Message) -> ChessResidualConfig:
    policy: Any = _expect(form, "policy", {2: "convolution", 3: "attention"}, "a convolutional or attention policy")
    if weights.get("pol_encoder") or weights.get("encoder"):
        raise CorruptRecord("weights.pol_encoder: encoder layers in the policy head of a tower cannot be read")
    blocks = weights.get("residual", [])
    squeezes = {layer_size(block.get("se", {}).get("b1")) for block in blocks} or {0}
    if len(squeezes) > 1:
        raise CorruptRecord("weights.residual: blocks have squeeze-excitation units of several sizes")
    head = ChessPolicyHeadConfig(kind=policy)
    if policy == "attention":
        head = _policy_head(weights)
    filters = layer_size(weights.get("input", {}).get("weights")) // (112 * 9)
    return ChessResidualConfig(
        kind="chess_residual",
        blocks=len(blocks),
        filters=filters,
        squeeze=squeezes.pop(),
        activation=_activation(form),
        norm="frozen" if has_norm(weights) else "none",
        heads=ChessHeadsConfig(
            policy={"vanilla": head},
            value={
                "winner": ChessValueHeadConfig(
                    channels=layer_size(weights.get("value", {}).get("weights")) // filters,
                    inner=layer_size(weights.get("ip1_val_b")),
                )
            },
            moves_left=_moves_left(form, weights, layer_size(weights.get("moves_left", {}).get("weights")) // filters),
        ),
    )


def _attention(form: Message, weights: Message) -> ChessAttentionConfig:
    _expect(form, "policy", {schema.POLICY_ATTENTION: ""}, "an attention policy")
    _expect(form, "input_embedding", {schema.EMBEDDING_DENSE: ""}, "a dense position embedding (PE_DENSE)")
    if weights.get("residual"):
        raise CorruptRecord("weights.residual: a tower below an attention body cannot be read")
    names = {number: name for name, number in schema.ACTIVATIONS.items()}
    inner: Any = _expect(form, "ffn_activation", names, "a known activation")
    layers, count = weights.get("encoder", []), weights.get("headcount", 1)
    first = layers[0] if layers else {}
    width = layer_size(weights.get("ip_emb_b"))
    policies = _heads(weights.get("policy_heads", {}), schema.POLICY_HEADS, "policy_head_map")
    values = _heads(weights.get("value_heads", {}), schema.VALUE_HEADS, "value_head_map")
    return ChessAttentionConfig(
        kind="chess_attention",
        layers=len(layers),
        width=width,
        heads_per_layer=count,
        feed_forward=layer_size(first.get("ffn", {}).get("dense1_b")),
        position=layer_size(weights.get("ip_emb_preproc_b")) // 64,
        smolgen=_smolgen(form, first.get("mha", {}).get("smolgen"), width, count),
        activation=_activation(form),
        feed_forward_activation=inner,
        heads=ChessHeadsConfig(
            policy={name: _policy_head({**_shared(weights), **head}) for name, head in policies.items()},
            value={name: _value_head(head) for name, head in values.items()},
            moves_left=_moves_left(form, weights, layer_size(weights.get("ip_mov_b"))),
            main_policy=next(iter(policies), "vanilla"),
            main_value=next(iter(values), "winner"),
        ),
    )


def _shared(weights: Message) -> Message:
    """The policy embedding that heads without one of their own share."""
    return {name: layer for name, layer in weights.get("policy_heads", {}).items() if name in ("ip_pol_w", "ip_pol_b")}


def _heads(message: Message, known: tuple[str, ...], entries: str) -> dict[str, Message]:
    named = {name: message[name] for name in known if message.get(name)}
    return named | {entry.get("key", ""): entry.get("value", {}) for entry in message.get(entries, [])}


def _policy_head(message: Message) -> ChessPolicyHeadConfig:
    if message.get("pol_encoder"):
        raise CorruptRecord("weights: encoder layers inside a policy head cannot be read")
    return ChessPolicyHeadConfig(
        embedding=layer_size(message.get("ip_pol_b")) or None, width=layer_size(message.get("ip2_pol_b")) or None
    )


def _value_head(message: Message) -> ChessValueHeadConfig:
    return ChessValueHeadConfig(
        channels=layer_size(message.get("ip_val_b")),
        inner=layer_size(message.get("ip1_val_b")),
        error=layer_size(message.get("ip_val_err_b")) > 0,
        buckets=layer_size(message.get("ip_val_cat_b")),
    )


def _moves_left(form: Message, weights: Message, channels: int) -> dict[str, ChessMovesLeftHeadConfig]:
    if form.get("moves_left", 0) != schema.MOVES_LEFT_V1:
        return {}
    return {"main": ChessMovesLeftHeadConfig(channels=channels, inner=layer_size(weights.get("ip1_mov_b")))}


def _smolgen(form: Message, message: Message | None, width: int, heads: int) -> SmolgenConfig | None:
    if not message:
        return None
    names = {number: name for name, number in schema.ACTIVATIONS.items()}
    activation: Any = _expect(form, "smolgen_activation", names, "a known activation")
    return SmolgenConfig(
        compressed=layer_size(message.get("compress")) // max(width, 1),
        inner=layer_size(message.get("dense1_b")),
        size=layer_size(message.get("dense2_b")) // max(heads, 1),
        activation=activation,
    )
