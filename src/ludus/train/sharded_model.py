"""A language model whose parameters are cut over several trainers (FSDP2): built without weights, then filled.

Each decoder layer is one unit: gathered before it computes, cut again after; embeddings, the last norm and the head are
another. Master weights and the sum of gradients are float32; layers compute in `policy.model.dtype`. A frozen base is
cut too, in that type.

Invariant: no process ever holds more than its shards and what is gathered for a layer. Parameters are made on PyTorch's
meta device and filled from safetensors, row by row of a tensor (models whose files name their weights otherwise are
loaded whole first, and said so).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from ludus.config import LanguageModelConfig, LoraConfig
from ludus.errors import ConfigError
from ludus.lm.adapters import PREFIX, A, B, adapter_shapes
from ludus.lm.language_models import DTYPES, load_language_model, quiet_transformers
from ludus.storage.tensor_shards import TensorFolder
from ludus.train.torch_packed import PackedNetwork

log = logging.getLogger(__name__)

DOWN, UP = "ludus_lora_A", "ludus_lora_B"
"""Attributes of a linear layer: its adapter."""
Rows = Callable[[str, int, int], NDArray[Any]]
"""Rows `start` to `stop` of a tensor."""


class ShardedModel:
    """A causal model in shards, with adapters or without.

    Args:
        config: which model.
        folder: where its files are.
        lora: adapters that are trained beside the frozen model; None trains every parameter, or (`is_frozen`) none.
        mesh: the trainers.
    """

    def __init__(
        self,
        config: LanguageModelConfig,
        folder: Path,
        *,
        lora: LoraConfig | None,
        mesh: Any,
        device: torch.device,
        is_frozen: bool = False,
    ) -> None:
        self.dtype = DTYPES[config.dtype]
        self._config, self._folder, self.path = config, folder, config.path
        frozen = is_frozen or lora is not None
        self.model = _without_weights(folder, self.dtype if frozen else torch.float32)
        self.model.requires_grad_(not frozen)
        base = [name for name, _ in self.model.named_parameters()]
        self._adapters = {} if lora is None else _add_adapters(self.model, lora)
        self.network = PackedNetwork(self.model)
        _shard(self.network, mesh, self.dtype)
        fill_meta = lambda tensor: torch.empty_like(tensor, device=device) if tensor.is_meta else tensor.to(device)  # noqa: E731
        self.network._apply(fill_meta)  # type: ignore[no-untyped-call]
        self._base = {name: _parameter(self.model, name) for name in base}
        self.trained: dict[str, DTensor] = {} if is_frozen else dict(self._base)
        """By the names of published versions."""
        if lora is not None:
            self.trained = {name: _parameter(self.model, place) for name, place in self._adapters.items()}
        self.load_base()

    def adapter(self, module: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Both matrices of a linear layer's adapter, as they are now: gathered while its layer computes."""
        layer: Any = self.model.get_submodule(module)
        return getattr(layer, DOWN), getattr(layer, UP)

    def load_base(self) -> None:
        """Fill the model's own parameters from its files."""
        files = TensorFolder(sorted(self._folder.glob("*.safetensors")))
        rows: Rows = files.rows
        lacking = [name for name, own in self._base.items() if name not in files or files.shape(name) != own.shape]
        if lacking:
            log.info("%s names its weights otherwise (%s); it is loaded whole first", self._config.path, lacking[0])
            whole = load_language_model(self._config, speaks=False).model.state_dict()
            rows = lambda name, start, stop: whole[name][start:stop].float().numpy()  # noqa: E731
        for name, parameter in self._base.items():
            fill(parameter, name, rows)


def fill(parameter: torch.Tensor, name: str, rows: Rows) -> None:
    """Give this trainer's rows of a parameter their values."""
    own, start = local(parameter), first_row(parameter)
    if own.numel():
        with torch.no_grad():
            own.copy_(torch.from_numpy(np.ascontiguousarray(rows(name, start, start + len(own)))))


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This trainer's rows of a tensor; all of one that is not cut."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def first_row(tensor: torch.Tensor) -> int:
    """Where this trainer's rows begin."""
    if not isinstance(tensor, DTensor):
        return 0
    _, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return int(offsets[0])


def _without_weights(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The model with parameters on the meta device; buffers are there."""
    with quiet_transformers():
        settings = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        with _parameters_on_meta():
            kind: Any = AutoModelForCausalLM
            model = kind.from_config(settings, dtype=dtype, trust_remote_code=False)
    made: PreTrainedModel = model.eval()
    return made


@contextlib.contextmanager
def _parameters_on_meta() -> Iterator[None]:
    register = nn.Module.register_parameter

    def onto_meta(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and not parameter.is_meta:
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    nn.Module.register_parameter = onto_meta  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def _add_adapters(model: PreTrainedModel, lora: LoraConfig) -> dict[str, str]:
    """Put adapters without values into the linear layers; where each peft name is."""
    places: dict[str, str] = {}
    for name, shape in adapter_shapes(model, lora).items():
        end, attribute = (A, DOWN) if name.endswith(A) else (B, UP)
        module = name.removeprefix(PREFIX).removesuffix(end)
        model.get_submodule(module).register_parameter(attribute, nn.Parameter(torch.empty(shape, device="meta")))
        places[name] = f"{module}.{attribute}"
    return places


def _shard(network: PackedNetwork, mesh: Any, dtype: torch.dtype) -> None:
    policy = MixedPrecisionPolicy(
        param_dtype=None if dtype == torch.float32 else dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    kinds = set(getattr(network.model, "_no_split_modules", None) or ())
    layers = [
        m for m in network.model.modules() if isinstance(m, GradientCheckpointingLayer) or type(m).__name__ in kinds
    ]
    for module in (*layers, network):
        fully_shard(module, mesh=mesh, mp_policy=policy)
    for module in network.modules():
        if isinstance(
            module, FSDPModule
        ):  # gloo knows no pre-multiplied sum, and minibatches are normalised as a whole
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)


def _parameter(model: PreTrainedModel, name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(model.get_submodule(module), attribute)


def check_packs(network: PackedNetwork, path: str) -> None:
    """Raise ConfigError for a model whose passes would not be equally many on all trainers."""
    if not network.packs:
        raise ConfigError(
            f"train.sharding: {path} mixes packed rows, so trainers cannot share its weights; leave it out"
        )


def read_rows(tensors: Mapping[str, NDArray[Any]]) -> Rows:
    """Rows of arrays that are in memory."""
    return lambda name, start, stop: np.asarray(tensors[name])[start:stop]
