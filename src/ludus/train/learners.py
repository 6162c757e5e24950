"""Which learner trains a policy: JAX for networks, PyTorch for language models. Neither loads the other's framework.

And what both refuse: a state that is another policy's, an update after which too many steps in a row were skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ludus.config import CHESS_LOSS_OPTIONS, RunConfig
from ludus.errors import CorruptRecord

if TYPE_CHECKING:
    import torch

    from ludus.train.jax_learner import JaxLearner
    from ludus.train.meeting import Peers
    from ludus.train.reducer import Reducer
    from ludus.train.sharded_learner import ShardedLearner
    from ludus.train.torch_credit import Teacher
    from ludus.train.torch_learner import TorchLearner

Parts = Mapping[str, Mapping[str, NDArray[Any]]]
"""Tensors by name, in the parts `weights` and `optimizer`."""
MEAN, RAW = "swa.", "raw."
"""Before the name of a weight in `optimizer`, with `train.swa`: its mean, and its newest value (see `swa.py`)."""


class UpdatingLearner(Protocol):
    """Trains one policy. Its state is opaque to others."""

    def init(self, seed: int) -> Any:
        """Fresh weights and optimizer."""
        ...

    def train_batch(self, state: Any, experiences: Any, seed: int, progress: float) -> tuple[Any, dict[str, float]]:
        """One update on rows of experience, or on the tensors that it takes; returns the new state and metrics.

        The old state must not be used again.
        """
        ...


class Learner(UpdatingLearner, Protocol):
    """A learner whose state is whole in this process: others see its tensors."""

    def state_tensors(self, state: Any) -> Parts:
        """The state as NumPy arrays."""
        ...

    def state_from_tensors(self, tensors: Parts) -> Any:
        """The inverse; refuses tensors of another policy or optimizer."""
        ...


@runtime_checkable
class FolderLearner(UpdatingLearner, Protocol):
    """A learner whose state is nowhere whole: it reads and writes folders, which its trainers know by name."""

    def write_state(self, state: Any, folder: Path, name: str, *, only_weights: bool = False) -> None:
        """Write it, or its weights alone."""
        ...

    def read_state(self, folder: Path, name: str) -> Any:
        """The inverse."""
        ...

    def begin_with(self, state: Any, files: list[Path]) -> Any:
        """Take what there is of other weights, with a fresh optimizer."""
        ...


@runtime_checkable
class ValidatingLearner(Learner, Protocol):
    """A learner that can measure a policy on rows without training on them."""

    def validate(self, state: Any, rows: Any) -> dict[str, float]:
        """Losses and other measures by name."""
        ...


@runtime_checkable
class ProbingLearner(Learner, Protocol):
    """A learner whose weights an inference server can be compared with."""

    def probe(self, state: Any) -> dict[str, Any]:
        """What the weights think of the probe's tokens, as JSON (`lm.probe`); nothing where no server asks."""
        ...


def make_learner(
    config: RunConfig,
    shape: Mapping[str, Any],
    *,
    teacher: Mapping[str, Any] | None = None,
    scratch: Path | None = None,
    peers: Peers | None = None,
) -> Learner | FolderLearner:
    """The learner of a run for a policy of this shape, with this teacher (as JSON); temporaries go into `scratch`.

    `peers` are the other trainers, where this process is not to start them.
    """
    if has_chess_losses(config):
        return _make_chess_learner(config, shape)
    if config.policy.model is None:
        if config.train.trainers > 1:
            from ludus.train.jax_parallel import ParallelJaxLearner, meet_helpers

            return ParallelJaxLearner(config, shape, None if peers is None else meet_helpers(config, peers))
        return make_network_learner(config, shape)
    if config.train.sharding is not None:
        from ludus.train.sharded_trainers import ShardedTrainers

        return ShardedTrainers(config, shape, teacher=teacher, scratch=scratch, peers=peers)
    if config.train.trainers > 1:
        from ludus.train.parallel import ParallelLearner

        return ParallelLearner(config, shape, teacher=teacher, scratch=scratch, peers=peers)
    return make_torch_learner(config, shape, teacher=teacher)


def has_chess_losses(config: RunConfig) -> bool:
    """Whether a run trains a chess network on a loader's tensors."""
    return any(term.loss in CHESS_LOSS_OPTIONS for term in config.train.algorithm.objective or ())


def local_devices(config: RunConfig) -> int:
    """Devices that share the minibatches of the trainer's own process; other learners share them by processes."""
    return config.train.trainers if has_chess_losses(config) else 1


def _make_chess_learner(config: RunConfig, shape: Mapping[str, Any]) -> Learner:
    """The learner of a chess network, whose room is above this one."""
    from ludus.policies import PolicyShape

    import_module("ludus.chess.compile_cache").use_compile_cache()
    network, room = PolicyShape.from_json(shape).build(), import_module("ludus.chess.learner")
    learner: Learner = room.ChessLearner(network, config.train, devices=room.find_devices(config.train.trainers))
    return learner


def make_network_learner(config: RunConfig, shape: Mapping[str, Any]) -> JaxLearner:
    """A network's learner in this process."""
    from ludus.policies import PolicyShape
    from ludus.train.jax_learner import JaxLearner

    return JaxLearner(PolicyShape.from_json(shape).build(), config.train)


def make_torch_learner(
    config: RunConfig,
    shape: Mapping[str, Any],
    *,
    teacher: Mapping[str, Any] | None = None,
    reducer: Reducer | None = None,
) -> TorchLearner:
    """A language model's learner in this process; `reducer` knows the others, where there are any."""
    from ludus.lm.devices import find_device
    from ludus.lm.language_models import load_language_model
    from ludus.lm.language_shape import LanguageModelShape
    from ludus.train.torch_learner import TorchLearner

    language, temperature = LanguageModelShape.from_json(shape), config.explore.sampling.temperature
    device = find_device(config.train.device, rank=0 if reducer is None else reducer.rank)
    model = load_language_model(language.model, device=device)
    return TorchLearner(
        model,
        config.train,
        lora=language.model.lora,
        temperature=temperature,
        by_game=_temperatures(config),
        reducer=reducer,
        teacher=_make_teacher(config, teacher, model.context, reducer, device),
        has_server=config.explore.engine.kind == "vllm",
    )


def make_sharded_learner(
    config: RunConfig, shape: Mapping[str, Any], *, teacher: Mapping[str, Any] | None = None, reducer: Reducer
) -> ShardedLearner:
    """This trainer's part of a learner whose weights several trainers share."""
    import torch

    from ludus.lm.devices import find_device
    from ludus.lm.language_models import context_of
    from ludus.lm.language_shape import LanguageModelShape
    from ludus.lm.model_folder import find_model_folder
    from ludus.train.sharded_learner import ShardedLearner

    language = LanguageModelShape.from_json(shape)
    device = find_device(config.train.device, rank=reducer.rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    context = context_of(language.model, find_model_folder(language.model.path)) if teacher else 0
    return ShardedLearner(
        config,
        language,
        reducer=reducer,
        device=device,
        temperature=config.explore.sampling.temperature,
        by_game=_temperatures(config),
        teacher=_make_teacher(config, teacher, context, reducer, device),
    )


def _temperatures(config: RunConfig) -> dict[str, float]:
    return {game: sampling.temperature for game, sampling in config.sampling_by_game().items()}


def _make_teacher(
    config: RunConfig, teacher: Mapping[str, Any] | None, context: int, reducer: Reducer | None, device: torch.device
) -> Teacher | None:
    """The teacher (as JSON) for conversations of so many tokens, where there is one."""
    if not teacher:
        return None
    from ludus.lm.teachers import TeacherModel
    from ludus.train.torch_credit import Teacher

    return Teacher(
        TeacherModel.from_json(teacher),
        context=context,
        temperature=config.explore.sampling.temperature,
        by_game=_temperatures(config),
        reducer=reducer,
        device=device,
    )


def check_tensors(
    part: str, expected: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], found: Mapping[str, NDArray[Any]]
) -> None:
    """Raise CorruptRecord for a part of a state whose names, shapes or types are not the expected ones."""
    problems = [f"{name} is missing" for name in expected.keys() - found.keys()]
    problems += [f"{name} is unknown" for name in found.keys() - expected.keys()]
    for name in expected.keys() & found.keys():
        (shape, dtype), have = expected[name], found[name]
        if (shape, dtype) != (have.shape, have.dtype):
            problems.append(f"{name} is {have.dtype}{list(have.shape)}, expected {dtype}{list(shape)}")
    if problems:
        problems.sort()
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise CorruptRecord(f"{part} do not fit this policy and optimizer: {'; '.join(problems[:5])}{more}")


def begun_with(parts: Parts, theirs: Mapping[str, NDArray[Any]]) -> Parts:
    """A fresh state's tensors with other weights, wherever it has them: newest and mean alike."""
    weights = {name: theirs.get(name, tensor) for name, tensor in parts["weights"].items()}
    copies = {f"{prefix}{name}": tensor for prefix in (MEAN, RAW) for name, tensor in weights.items()}
    optimizer = {name: copies.get(name, tensor) for name, tensor in parts["optimizer"].items()}
    return {**parts, "weights": weights, "optimizer": optimizer}
