"""One of several trainers that share a language model's weights, its gradient and its optimizer (FSDP2).

Invariants: all trainers call the same methods in the same order, and none of them holds a whole model. The update is
that of one trainer, to rounding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.distributed.device_mesh import DeviceMesh

from ludus.config import LoraConfig, RunConfig
from ludus.errors import ConfigError
from ludus.lm.adapters import init_adapter
from ludus.lm.language_models import LanguageModel, context_of
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.model_folder import find_model_folder
from ludus.lm.weights import VALUE_BIAS, VALUE_WEIGHT
from ludus.records import Experiences
from ludus.storage.tensor_shards import Part, TensorFolder
from ludus.train.reducer import Reducer
from ludus.train.sharded_model import ShardedModel, check_packs, fill, read_rows
from ludus.train.sharded_state import ShardedState, ShardedWeights
from ludus.train.token_learner import TokenLearner, compares_with_base
from ludus.train.token_rows import Ints, Targets
from ludus.train.torch_credit import Teacher
from ludus.train.torch_forward import Scores
from ludus.train.torch_packed import PackedForward
from ludus.train.torch_state import Names, TrainedWeights


class ShardedForward:
    """Passes of the policy and, where a term compares with it, of a base model that is frozen."""

    fused: tuple[Names, ...] = ()
    is_collective = True

    def __init__(self, policy: PackedForward, base: PackedForward | None) -> None:
        """`base` None: adapters that are left out make the base model."""
        self._policy, self._base = policy, base

    def _of(self, weights: Any) -> PackedForward:
        return self._base if weights is None and self._base is not None else self._policy

    def parts(self, rows: Experiences, tokens: int) -> list[Ints]:
        """Rows of like length together."""
        return self._policy.parts(rows, tokens)

    def score(self, rows: Experiences, targets: Targets, weights: Any, *, temperature: float) -> Scores:
        """Score the targets."""
        return self._of(weights).score(rows, targets, weights, temperature=temperature)

    def idle(self, weights: Any) -> torch.Tensor:
        """A pass over next to nothing."""
        return self._of(weights).idle(weights)

    def release(self) -> None:
        """Nothing but which weights are meant is kept between calls."""
        self._policy.release()


class ShardBinding:
    """Adapters that are in the model itself, switched on and off."""

    def __init__(self, model: ShardedModel) -> None:
        self._model, self._is_on = model, False

    def bind(self, weights: Any) -> None:
        """None: the base model."""
        self._is_on = weights is not None

    def adapter(self, module: str) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Both matrices."""
        return self._model.adapter(module) if self._is_on else None


class ShardedLearner(TokenLearner[ShardedState]):
    """This trainer's part of a learner."""

    def __init__(
        self,
        config: RunConfig,
        shape: LanguageModelShape,
        *,
        reducer: Reducer,
        device: torch.device,
        temperature: float,
        by_game: Mapping[str, float],
        teacher: Teacher | None = None,
    ) -> None:
        train, source = config.train, shape.model
        folder = find_model_folder(source.path)
        check_alike(config, folder, reducer)
        mesh = DeviceMesh(device.type, list(range(reducer.size)))
        self._sharded = ShardedModel(source, folder, lora=source.lora, mesh=mesh, device=device)
        self._lora, self._is_fresh = source.lora, True
        policy = self._forward_of(self._sharded, config, source.lora)
        base: PackedForward | None = None
        if source.lora is None and compares_with_base(train):
            frozen = ShardedModel(source, folder, lora=None, mesh=mesh, device=device, is_frozen=True)
            base = self._forward_of(frozen, config, None)
        model = LanguageModel(
            model=self._sharded.model,
            tokenizer=None,
            context=context_of(source, folder),
            path=source.path,
            folder=folder,
        )
        super().__init__(
            model,
            train,
            forward=ShardedForward(policy, base),
            temperature=temperature,
            by_game=by_game,
            reducer=reducer,
            teacher=teacher,
            device=device,
            has_server=config.explore.engine.kind == "vllm",
        )
        weights: dict[str, torch.Tensor] = dict(self._sharded.trained)
        if self.has_critic:
            weights[VALUE_WEIGHT] = torch.zeros(1, model.width, device=device, requires_grad=True)
            weights[VALUE_BIAS] = torch.zeros(1, device=device, requires_grad=True)
        self._weights, self._reducer = ShardedWeights(weights, reducer), reducer

    @staticmethod
    def _forward_of(model: ShardedModel, config: RunConfig, lora: LoraConfig | None) -> PackedForward:
        forward = PackedForward(
            model.model,
            lora=lora,
            checkpointing=config.train.activation_checkpointing,
            binding=ShardBinding(model),
            network=model.network,
            dtype=model.dtype,
        )
        check_packs(model.network, model.path)
        return forward

    # -- state -----------------------------------------------------------------------------------------------------

    def init(self, seed: int) -> ShardedState:
        """Fresh adapters (or the model's own parameters), a critic that says 0, and a fresh optimizer."""
        if self._lora is not None:
            adapters = init_adapter(self._sharded.model, self._lora, seed)
            for name, parameter in self._sharded.trained.items():
                fill(parameter, name, read_rows(adapters))
        elif not self._is_fresh:
            self._sharded.load_base()
        with torch.no_grad():
            for name in (VALUE_WEIGHT, VALUE_BIAS):
                if name in self._weights:
                    self._weights[name].zero_()
        return self._fresh()

    def _fresh(self) -> ShardedState:
        offloads = self._train.offload_optimizer
        return ShardedState.fresh(self._weights, self._train.optimizer, offloads=offloads)

    def read_state(self, folder: Path) -> ShardedState:
        """This trainer's rows of a state, whoever wrote it."""
        state, self._is_fresh = self._fresh(), False
        state.read(folder)
        return state

    def begin_with(self, state: ShardedState, files: list[Path]) -> ShardedState:
        """Another run's weights, wherever it has them, with a fresh optimizer."""
        theirs, self._is_fresh = Part(TensorFolder(files), ""), False
        state.take(theirs, frozenset(theirs))
        return state

    # -- an update -------------------------------------------------------------------------------------------------

    def _weights_of(self, state: ShardedState) -> ShardedWeights:
        self._is_fresh = False
        return state.weights

    def _descend(self, state: ShardedState, weights: TrainedWeights, progress: float) -> None:
        state.descend(self._train.optimizer, progress=progress)


def check_alike(config: RunConfig, folder: Path, reducer: Reducer) -> None:
    """Raise ConfigError, on every trainer, where they do not have the same config, model files or libraries."""
    files = {path.name: path.stat().st_size for path in folder.iterdir() if path.suffix in (".safetensors", ".json")}
    known = {
        "config": config.model_dump_json(),
        f"files of {folder.name}": json.dumps(files, sort_keys=True),
        "version of PyTorch": torch.__version__,
        "version of transformers": transformers.__version__,
    }
    digests = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") for text in known.values()]
    table = torch.zeros(reducer.size, len(digests), dtype=torch.int64)
    table[reducer.rank] = torch.tensor(digests)
    reducer.add_up(table)
    for rank, column in (table != table[0]).nonzero().tolist():
        raise ConfigError(f"train.sharding: trainer {rank} has another {list(known)[column]} than trainer 0")
