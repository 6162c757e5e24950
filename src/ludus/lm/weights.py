"""A decoder's weights: matrices that are multiplied together stand together. And what a version's tensors become.

Invariant: what is computed from these is what transformers computes from the parameters, to float32 rounding. Nothing
here is written to after it was made, so versions may share the parts that are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from ludus.config import LoraConfig
from ludus.errors import ConfigError
from ludus.lm.adapters import PREFIX, VALUE_PREFIX, A, B, check_adapter, check_fit
from ludus.lm.rows import FEWEST

Tensors = Mapping[str, NDArray[Any]]
Parameters = Callable[[str], Tensor | None]
"""A parameter by its transformers name; None if the model has none of that name."""
SITES = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
"""The products of each layer, and the linear layers that each of them stands for, in order."""
WHOLE = 8
"""Ranks are filled up with zeros to multiples of this: what a processor computes at once."""
VALUE_WEIGHT, VALUE_BIAS = f"{VALUE_PREFIX}weight", f"{VALUE_PREFIX}bias"
COLUMNS = 8
"""Of the product, all but the first zero: how a product with one column adds up depends on its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowRank:
    """Adapters that are trained: `scale * up_i (down_i x)`, added from output `places[i]` on."""

    down: Tensor
    """`[n * rank, in]`: the n matrices below each other."""
    ups: tuple[Tensor, ...]
    """n matrices `[out_i, rank]`."""
    places: tuple[int, ...]
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Linear layers that share their input, as one product."""

    matrix: Tensor
    """`[in, out]`."""
    bias: Tensor | None
    number: int
    """Among all products of the decoder: layer * len(SITES) + site."""
    adapter: LowRank | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer."""

    number: int
    attention_norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """All parameters of one version."""

    embedding: Tensor
    """`[vocabulary, width]`."""
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Tensor
    """`[vocabulary, width]`."""


def build_weights(
    layers: int, parameter: Parameters, linear: Callable[[int, tuple[str, ...]], Linear]
) -> DecoderWeights:
    """A decoder's weights, from parameters by name and from products by number and the names of their modules."""

    def need(name: str) -> Tensor:
        tensor = parameter(name)
        if tensor is None:
            raise KeyError(name)
        return tensor

    def layer(number: int) -> Layer:
        at = f"model.layers.{number}."
        first = number * len(SITES)
        qkv, out, gate_up, down = (
            linear(first + site, tuple(at + name for name in names)) for site, names in enumerate(SITES.values())
        )
        return Layer(
            number=number,
            attention_norm=need(f"{at}input_layernorm.weight"),
            qkv=qkv,
            q_norm=parameter(f"{at}self_attn.q_norm.weight"),
            k_norm=parameter(f"{at}self_attn.k_norm.weight"),
            out=out,
            mlp_norm=need(f"{at}post_attention_layernorm.weight"),
            gate_up=gate_up,
            down=down,
        )

    embedding, head = need("model.embed_tokens.weight"), parameter("lm_head.weight")
    return DecoderWeights(
        embedding=embedding,
        layers=tuple(layer(number) for number in range(layers)),
        norm=need("model.norm.weight"),
        head=embedding if head is None else head,
    )


def fuse_weights(layers: int, parameter: Parameters) -> DecoderWeights:
    """Copies of a model's parameters, laid out as products read them: for generation."""

    def linear(number: int, modules: tuple[str, ...]) -> Linear:
        weights, biases = ([parameter(f"{name}.{kind}") for name in modules] for kind in ("weight", "bias"))
        return Linear(
            matrix=torch.cat([weight for weight in weights if weight is not None]).t().contiguous(),
            bias=torch.cat([bias for bias in biases if bias is not None]) if biases[0] is not None else None,
            number=number,
        )

    made = build_weights(layers, parameter, linear)
    return replace(made, head=made.head.t().contiguous().t())


def check_version(tensors: Tensors, model: PreTrainedModel, lora: LoraConfig | None) -> None:
    """Raise ConfigError unless a version's tensors fit the model; a critic's head is passed over."""
    if lora is not None:
        check_adapter(tensors, model, lora)
        return
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    needed = (name for name, _ in model.named_parameters())
    check_fit("the weights do not fit the model", tensors, shapes, needed=needed)


def version_parameters(model: PreTrainedModel, tensors: Tensors, lora: LoraConfig | None) -> dict[str, Tensor]:
    """The model's parameters in one version: merged with its adapter, or (`lora` None) exchanged for its own."""
    base = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    if lora is None:
        own = {name: torch.from_numpy(np.array(array)) for name, array in tensors.items() if name in base}
        if model.config.tie_word_embeddings and "lm_head.weight" not in own:
            base.pop("lm_head.weight", None)
        return base | {name: tensor.to(base[name]) for name, tensor in own.items()}
    scale = lora.alpha / lora.rank
    changed = {
        name: _merge(model, name, base[name], tensors, scale)
        for name in base
        if PREFIX + name.removesuffix(".weight") + A in tensors
    }
    return base | changed


def _merge(model: PreTrainedModel, name: str, weight: Tensor, tensors: Tensors, scale: float) -> Tensor:
    module = name.removesuffix(".weight")
    down, up = (torch.from_numpy(np.array(tensors[PREFIX + module + end], np.float32)) for end in (A, B))
    change = (scale * (up @ down)).to(weight.device)
    if isinstance(model.get_submodule(module), Conv1D):
        change = change.t()
    return (weight.to(torch.float32) + change).to(weight.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """The critic head of a version: a linear function of the last hidden state, in float32."""

    weight: Tensor
    """`[width, COLUMNS]`."""
    bias: float

    def judge(self, hidden: Tensor) -> NDArray[np.float32]:
        """Values `[n]` of hidden states `[n, width]`."""
        count = len(hidden)
        if count < FEWEST:
            hidden = torch.cat([hidden, hidden.new_zeros(FEWEST - count, hidden.shape[1])])
        values = (hidden.float() @ self.weight)[:count, 0].cpu().numpy()
        judged: NDArray[np.float32] = values + np.float32(self.bias)
        return judged


def read_critic(tensors: Tensors, *, width: int, device: torch.device) -> Critic | None:
    """The critic among a version's tensors, if there is one. Raises ConfigError if it does not fit the model."""
    if VALUE_WEIGHT not in tensors:
        return None
    weight = np.asarray(tensors[VALUE_WEIGHT], np.float32)
    bias = np.asarray(tensors.get(VALUE_BIAS, np.zeros(1)), np.float32)
    if weight.shape != (1, width) or bias.shape != (1,):
        raise ConfigError(f"{VALUE_WEIGHT} has shape {list(weight.shape)}, the model needs [1, {width}]")
    columns = torch.zeros(width, COLUMNS)
    columns[:, 0] = torch.from_numpy(weight[0].copy())
    return Critic(weight=columns.to(device), bias=float(bias[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """What one linear layer's adapter adds: `(x @ down)[:, ranks] @ matrix` to columns from `column` on."""

    ranks: slice
    column: int
    matrix: Tensor
    """`[ranks, out]`, times alpha / rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is added to one fused product."""

    down: Tensor
    """`[in, ranks]`, of all its linear layers side by side."""
    ups: tuple[Up, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Adapter:
    """A version's adapter beside the base, for models too large to have a merged copy of each version.

    For each layer what is added to each of `SITES`; None where nothing is. Adapters of matrices that stand together in
    the decoder stand together too: what they read, they read once.
    """

    layers: tuple[tuple[Site | None, ...], ...]


def fuse_adapter(
    tensors: Tensors, lora: LoraConfig, *, layers: int, outputs: Mapping[str, int], like: Tensor
) -> Adapter:
    """Put a version's adapter tensors together.

    `outputs` are those of each linear layer, by module name; `like` is a weight, for type and device.
    """
    scale = lora.alpha / lora.rank

    def site(at: str, *names: str) -> Site | None:
        return _fuse_site(tensors, scale, like, [(at + name, outputs[at + name]) for name in names])

    places = [f"model.layers.{number}." for number in range(layers)]
    return Adapter(layers=tuple(tuple(site(at, *names) for names in SITES.values()) for at in places))


def _fuse_site(tensors: Tensors, scale: float, like: Tensor, modules: Sequence[tuple[str, int]]) -> Site | None:
    downs: list[Tensor] = []
    ups: list[Up] = []
    column = 0
    for module, outputs in modules:
        if PREFIX + module + A in tensors:
            down, up = (torch.from_numpy(np.array(tensors[PREFIX + module + end], np.float32)) for end in (A, B))
            missing = -len(down) % WHOLE
            first = sum(len(one) for one in downs)
            downs.append(pad(down, (0, 0, 0, missing)))
            matrix = pad(scale * up.t(), (0, 0, 0, missing)).to(like).contiguous()
            ups.append(Up(ranks=slice(first, first + len(down) + missing), column=column, matrix=matrix))
        column += outputs
    return Site(down=torch.cat(downs).t().to(like).contiguous(), ups=tuple(ups)) if downs else None
