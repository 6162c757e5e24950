"""Where each weight of a chess network is in an lc0 file, and in which layout.

One table serves both directions, so that what is written is what is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ludus.chess.lc0_format.schema import POLICY_HEADS, VALUE_HEADS
from ludus.config.sections.chess import (
    ChessAttentionConfig,
    ChessNetworkConfig,
    ChessResidualConfig,
    ChessValueHeadConfig,
)

Array = NDArray[np.float32]
Path = tuple[str | int, ...]
RULE50_PLANE, RULE50_SCALE = 109, 99.0


class Tensor(NamedTuple):
    """One weight and its layer."""

    name: str
    """In our network."""
    path: Path
    """In the message of weights."""
    form: str
    """`vector`; `dense` `[I, O]` as `[O, I]`; `conv` `[H, W, I, O]` as `[O, I, H, W]`; `planes`: dense whose inputs are
    64 squares of channels, as channels of 64 squares; `gate` `[64, D]` as `[D, 64]`."""
    shows_planes: bool = False
    """Whether its inputs begin with the planes of the board."""


def tensors_of(config: ChessNetworkConfig) -> list[Tensor]:
    """Every weight that a file holds for a network. A residual tower's file holds its main heads alone."""
    if isinstance(config, ChessResidualConfig):
        return [*_tower(config), *_tower_heads(config)]
    return [*_attention_body(config), *_attention_heads(config)]


def omitted_heads(config: ChessNetworkConfig) -> list[str]:
    """Heads that the format has no place for."""
    heads = config.heads
    extra = [f"moves_left.{name}" for name in heads.moves_left if name != "main"]
    if isinstance(config, ChessResidualConfig):
        extra += [f"policy.{name}" for name in heads.policy if name != heads.main_policy]
        extra += [f"value.{name}" for name in heads.value if name != heads.main_value]
    return extra


def to_layer(tensor: Tensor, value: Array, *, raw_rule50: bool) -> Array:
    """A weight in the file's layout, flat. With `raw_rule50` the engine shows plies, which we show divided by 99."""
    if tensor.shows_planes and raw_rule50:
        value = _scaled(tensor, value, 1.0 / RULE50_SCALE)
    return _transposed(tensor.form, value).reshape(-1)


def from_layer(tensor: Tensor, flat: Array, shape: tuple[int, ...], *, raw_rule50: bool) -> Array:
    """The inverse of `to_layer`, for a weight of this shape."""
    value = _restored(tensor.form, flat, shape)
    if tensor.shows_planes and raw_rule50:
        value = _scaled(tensor, value, RULE50_SCALE)
    return np.ascontiguousarray(value, np.float32)


def _scaled(tensor: Tensor, value: Array, factor: float) -> Array:
    value = value.copy()
    axis = 2 if tensor.form == "conv" else 0
    place: list[Any] = [slice(None)] * value.ndim
    place[axis] = RULE50_PLANE
    value[tuple(place)] = value[tuple(place)].astype(np.float64) * factor
    return value


def _transposed(form: str, value: Array) -> Array:
    if form == "conv":
        return value.transpose(3, 2, 0, 1)
    if form == "planes":
        return value.reshape(64, -1, value.shape[-1]).transpose(2, 1, 0)
    return value if form == "vector" else value.T


def _restored(form: str, flat: Array, shape: tuple[int, ...]) -> Array:
    if form == "conv":
        height, width, inputs, outputs = shape
        return flat.reshape(outputs, inputs, height, width).transpose(2, 3, 1, 0)
    if form == "planes":
        return flat.reshape(shape[1], shape[0] // 64, 64).transpose(2, 1, 0).reshape(shape)
    return flat.reshape(shape) if form == "vector" else flat.reshape(shape[::-1]).T


# -- residual tower ------------------------------------------------------------------------------------------------


def _tower(config: ChessResidualConfig) -> Iterator[Tensor]:
    frozen = config.norm == "frozen"
    yield from _conv("body.stem", ("input",), frozen, shows_planes=True)
    for block in range(config.blocks):
        ours, theirs = f"body.blocks.{block}", ("residual", block)
        yield from _conv(f"{ours}.first", (*theirs, "conv1"), frozen)
        yield from _conv(f"{ours}.second", (*theirs, "conv2"), frozen)
        if config.squeeze:
            yield from _dense(f"{ours}.se.squeeze", (*theirs, "se"), "w1", "b1")
            yield from _dense(f"{ours}.se.excite", (*theirs, "se"), "w2", "b2")


def _tower_heads(config: ChessResidualConfig) -> Iterator[Tensor]:
    heads, frozen = config.heads, config.norm == "frozen"
    policy, value = f"policy.{heads.main_policy}", f"value.{heads.main_value}"
    if heads.policy[heads.main_policy].kind == "convolution":
        yield from _conv(f"{policy}.first", ("policy1",), frozen)
        yield from _conv(f"{policy}.planes", ("policy",), False)
    else:
        yield from _attention_policy(policy, ())
    yield from _conv(f"{value}.trunk.squares", ("value",), frozen)
    yield from _dense(f"{value}.trunk.hidden", (), "ip1_val_w", "ip1_val_b", form="planes")
    yield from _dense(f"{value}.wdl", (), "ip2_val_w", "ip2_val_b")
    if "main" in heads.moves_left:
        yield from _conv("moves_left.main.trunk.squares", ("moves_left",), frozen)
        yield from _dense("moves_left.main.trunk.hidden", (), "ip1_mov_w", "ip1_mov_b", form="planes")
        yield from _dense("moves_left.main.plies", (), "ip2_mov_w", "ip2_mov_b")


# -- attention body ------------------------------------------------------------------------------------------------


def _attention_body(config: ChessAttentionConfig) -> Iterator[Tensor]:
    yield from _dense("body.position", (), "ip_emb_preproc_w", "ip_emb_preproc_b")
    yield from _dense("body.embedding", (), "ip_emb_w", "ip_emb_b", shows_planes=True)
    yield from _norm("body.embedding_norm", (), "ip_emb_ln")
    yield Tensor("body.multiply", ("ip_mult_gate",), "gate")
    yield Tensor("body.add", ("ip_add_gate",), "gate")
    yield from _feed_forward("body.feed_forward", ("ip_emb_ffn",))
    yield from _norm("body.feed_forward_norm", (), "ip_emb_ffn_ln")
    for layer in range(config.layers):
        ours, theirs = f"body.layers.{layer}", ("encoder", layer)
        for name, word in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "dense")):
            yield from _dense(f"{ours}.{name}", (*theirs, "mha"), f"{word}_w", f"{word}_b")
        if config.smolgen is not None:
            yield from _smolgen(f"{ours}.smolgen", (*theirs, "mha", "smolgen"))
        yield from _norm(f"{ours}.attention_norm", theirs, "ln1")
        yield from _feed_forward(f"{ours}.feed_forward", (*theirs, "ffn"))
        yield from _norm(f"{ours}.feed_forward_norm", theirs, "ln2")
    if config.smolgen is not None:
        yield Tensor("body.smolgen.kernel", ("smolgen_w",), "dense")


def _attention_heads(config: ChessAttentionConfig) -> Iterator[Tensor]:
    heads = config.heads
    for name, path in head_paths("policy", tuple(heads.policy)).items():
        yield from _attention_policy(f"policy.{name}", path)
    for name, path in head_paths("value", tuple(heads.value)).items():
        yield from _value_head(f"value.{name}", path, heads.value[name])
    if "main" in heads.moves_left:
        yield from _dense("moves_left.main.trunk.squares", (), "ip_mov_w", "ip_mov_b")
        yield from _dense("moves_left.main.trunk.hidden", (), "ip1_mov_w", "ip1_mov_b")
        yield from _dense("moves_left.main.plies", (), "ip2_mov_w", "ip2_mov_b")


def head_paths(kind: str, names: tuple[str, ...]) -> dict[str, Path]:
    """Where each head of a multi-head file is: in a field of its own, or in the map of other heads."""
    known = POLICY_HEADS if kind == "policy" else VALUE_HEADS
    others = sorted(set(names) - set(known))
    fields: dict[str, Path] = {name: (f"{kind}_heads", name) for name in known if name in names}
    entries: dict[str, Path] = {
        name: (f"{kind}_heads", f"{kind}_head_map", place, "value") for place, name in enumerate(others)
    }
    return fields | entries


def _attention_policy(ours: str, path: Path) -> Iterator[Tensor]:
    yield from _dense(f"{ours}.embedding", path, "ip_pol_w", "ip_pol_b")
    yield from _dense(f"{ours}.query", path, "ip2_pol_w", "ip2_pol_b")
    yield from _dense(f"{ours}.key", path, "ip3_pol_w", "ip3_pol_b")
    yield Tensor(f"{ours}.promotion.kernel", (*path, "ip4_pol_w"), "dense")


def _value_head(ours: str, path: Path, head: ChessValueHeadConfig) -> Iterator[Tensor]:
    yield from _dense(f"{ours}.trunk.squares", path, "ip_val_w", "ip_val_b")
    yield from _dense(f"{ours}.trunk.hidden", path, "ip1_val_w", "ip1_val_b")
    yield from _dense(f"{ours}.wdl", path, "ip2_val_w", "ip2_val_b")
    if head.error:
        yield from _dense(f"{ours}.error", path, "ip_val_err_w", "ip_val_err_b")
    if head.buckets:
        yield from _dense(f"{ours}.categorical", path, "ip_val_cat_w", "ip_val_cat_b")


def _smolgen(ours: str, path: Path) -> Iterator[Tensor]:
    yield Tensor(f"{ours}.compress.kernel", (*path, "compress"), "dense")
    for name, number in (("first", 1), ("second", 2)):
        yield from _dense(f"{ours}.{name}", path, f"dense{number}_w", f"dense{number}_b")
        yield from _norm(f"{ours}.{name}_norm", path, f"ln{number}")


# -- parts ---------------------------------------------------------------------------------------------------------


def _conv(ours: str, path: Path, frozen: bool, *, shows_planes: bool = False) -> Iterator[Tensor]:
    yield Tensor(f"{ours}.kernel", (*path, "weights"), "conv", shows_planes)
    norm = {"mean": "bn_means", "variance": "bn_stddivs", "gamma": "bn_gammas", "beta": "bn_betas"}
    for name, field in (norm if frozen else {"bias": "biases"}).items():
        yield Tensor(f"{ours}.{name}", (*path, field), "vector")


def _dense(
    ours: str, path: Path, kernel: str, bias: str, *, form: str = "dense", shows_planes: bool = False
) -> Iterator[Tensor]:
    yield Tensor(f"{ours}.kernel", (*path, kernel), form, shows_planes)
    yield Tensor(f"{ours}.bias", (*path, bias), "vector")


def _norm(ours: str, path: Path, prefix: str) -> Iterator[Tensor]:
    yield Tensor(f"{ours}.scale", (*path, f"{prefix}_gammas"), "vector")
    yield Tensor(f"{ours}.bias", (*path, f"{prefix}_betas"), "vector")


def _feed_forward(ours: str, path: Path) -> Iterator[Tensor]:
    yield from _dense(f"{ours}.first", path, "dense1_w", "dense1_b")
    yield from _dense(f"{ours}.second", path, "dense2_w", "dense2_b")
