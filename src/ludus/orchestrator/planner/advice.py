"""Whether a run of a language model fits on a machine, and if it does not, why, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ludus.config import LoraConfig, RunConfig
from ludus.config.sections.engines import VllmEngineConfig
from ludus.lm.model_sizes import ModelSizes
from ludus.orchestrator.planner.gpu_bytes import (
    MASTER,
    MOMENTS,
    RESERVE,
    TOKENS_AT_ONCE,
    Machine,
    ServerBytes,
    TrainerBytes,
    context_of,
    host_bytes,
    language_model,
    server_bytes,
    server_gpus,
    trained_parameters,
    trainer_bytes,
)

MOST_ADVICE = 3
"""Changes that are named."""
PARTS = {
    "state": "weights, gradient and optimizer",
    "gathered": "layers as they compute",
    "kept": "activations that wait for the backward pass",
    "layer": "one layer's activations",
    "head": "logits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run takes, and why it does not fit, if it does not."""

    trainer: TrainerBytes
    server: ServerBytes | None
    host: int
    checkpoint: int
    """On disk: weights and optimizer."""
    version: int
    """On disk: what is published."""
    problems: tuple[str, ...]
    advice: tuple[str, ...]
    """Changes, each with which trainers fit."""


def make_plan(config: RunConfig, machine: Machine, sizes: ModelSizes, teacher: ModelSizes | None = None) -> Plan:
    """What a run of this config takes on this machine."""
    trained = trained_parameters(config, sizes)
    trainer, host = trainer_bytes(config, sizes, teacher), host_bytes(config, sizes)
    has_server = isinstance(config.explore.engine, VllmEngineConfig)
    server = server_bytes(config, machine, sizes) if has_server else None
    is_large = trainer.peak > usable(machine)
    return Plan(
        trainer=trainer,
        server=server,
        host=host,
        checkpoint=trained * MASTER * (1 + MOMENTS[config.train.optimizer.kind]),
        version=trained * MASTER,
        problems=tuple(_problems(config, machine, sizes, trainer, server, host)),
        advice=tuple(_advice(config, machine, sizes, teacher)) if is_large else (),
    )


def usable(machine: Machine) -> int:
    """Bytes of a GPU that a trainer may plan with."""
    return int(machine.gpu_bytes * (1 - RESERVE))


def gib(count: float) -> str:
    """Bytes in GiB, for people."""
    return f"{count / 2**30:,.1f} GiB"


def _problems(
    config: RunConfig, machine: Machine, sizes: ModelSizes, trainer: TrainerBytes, server: ServerBytes | None, host: int
) -> Iterator[str]:
    trainers, servers = config.train.trainers, server_gpus(config)
    if trainers + servers > machine.gpus:
        whose = f"{trainers} for trainers and {servers} for vLLM servers" if servers else "one for each trainer"
        yield f"the config wants {trainers + servers} GPUs ({whose}) and there are {machine.gpus}"
    if trainer.peak > usable(machine):
        most = max(PARTS, key=lambda name: int(getattr(trainer, name)))
        takes = f"a trainer takes {gib(trainer.peak)} of its GPU and can have {gib(usable(machine))}"
        yield f"{takes}; most of it is {PARTS[most]} ({gib(getattr(trainer, most))})"
    context = context_of(config, sizes)
    if server is not None and server.tokens < context:
        room = f"a vLLM server has room for {server.tokens:,} tokens beside its weights, and a conversation may have"
        yield f"{room} {context:,}; raise explore.engine.tensor_parallel, or lower policy.model.context"
    if machine.host_bytes and host > machine.host_bytes:
        yield f"the run takes {gib(host)} of host memory and there are {gib(machine.host_bytes)}"


def _advice(config: RunConfig, machine: Machine, sizes: ModelSizes, teacher: ModelSizes | None) -> Iterator[str]:
    """The gentlest changes with which trainers fit."""
    found = 0
    for words, changed in _changes(config, machine):
        if found < MOST_ADVICE and trainer_bytes(changed, sizes, teacher).peak <= usable(machine):
            found += 1
            yield words


def _changes(config: RunConfig, machine: Machine) -> Iterator[tuple[str, RunConfig]]:
    """In words, and made; checkpointing comes first and with all that follows, as it costs the least."""
    train = config.train
    cut = config.model_copy(update={"train": train.model_copy(update={"activation_checkpointing": True})})
    first = "" if train.activation_checkpointing else "train.activation_checkpointing: true"
    also = f"{first} and " if first else ""
    if first:
        yield first, cut
    for count in range(train.trainers + 1, machine.gpus - server_gpus(config) + 1):
        yield f"{also}train.trainers: {count}", _with_train(cut, trainers=count)
    for tokens in (8192, 4096, 2048):
        if tokens < (train.tokens_per_micro_batch or TOKENS_AT_ONCE):
            words = f"{also}train.tokens_per_micro_batch: {tokens} (conversations no longer than that)"
            changed = _with_model(_with_train(cut, tokens_per_micro_batch=tokens), context=tokens)
            yield words, changed
    model = language_model(config)
    if model.lora is None:
        yield f"{also}policy.model.lora: {{rank: 16}}", _with_model(cut, lora=LoraConfig())
    if model.dtype == "float32":
        lora = model.lora or LoraConfig()
        words = "" if model.lora else "policy.model.lora: {rank: 16} and "
        yield f"{also}{words}policy.model.dtype: bfloat16", _with_model(cut, lora=lora, dtype="bfloat16")


def _with_train(config: RunConfig, **values: object) -> RunConfig:
    return config.model_copy(update={"train": config.train.model_copy(update=values)})


def _with_model(config: RunConfig, **values: object) -> RunConfig:
    model = language_model(config).model_copy(update=values)
    return config.model_copy(update={"policy": config.policy.model_copy(update={"model": model})})
