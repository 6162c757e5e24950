"""What `ludus check --plan` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ludus.config import RunConfig
from ludus.errors import ConfigError
from ludus.lm.model_sizes import ModelSizes, sizes_of
from ludus.orchestrator.planner.advice import PARTS, Plan, gib, make_plan, usable
from ludus.orchestrator.planner.gpu_bytes import Machine, language_model, server_gpus, trained_parameters

Row = tuple[str, str]
_GIB = 2**30
_PLAN = re.compile(r"gpus=(\d{1,5})x(\d+(?:\.\d+)?)GB(?:,host=(\d+(?:\.\d+)?)GB)?")


def read_machine(text: str) -> Machine:
    """`gpus=8x80GB` or `gpus=8x80GB,host=512GB`; a GB is 2^30 bytes, as GPUs are sold. Raises ConfigError."""
    found = _PLAN.fullmatch(text.replace(" ", ""))
    if found is None or not int(found[1]) or not float(found[2]):
        raise ConfigError(f"--plan: {text!r} is no machine; write gpus=8x80GB, or gpus=8x80GB,host=512GB")
    host = int(float(found[3] or 0) * _GIB)
    return Machine(gpus=int(found[1]), gpu_bytes=int(float(found[2]) * _GIB), host_bytes=host)


def plan_run(config: RunConfig, machine: Machine, model_config: Path | None = None) -> tuple[list[Row], str]:
    """Rows to print, and the sentence that says why the run does not fit; empty if it does.

    Raises:
        ConfigError: the policy is no language model, or its sizes cannot be known here.
    """
    model, teacher = language_model(config), config.policy.teacher
    sizes = sizes_of(model.path, model_config)
    beside = sizes_of(teacher.path) if teacher is not None and teacher.path is not None else None
    plan = make_plan(config, machine, sizes, beside)
    rows = [("model", _model_in_words(config, sizes)), *_rows(config, machine, plan)]
    if not plan.problems:
        return [*rows, ("plan", "fits")], ""
    tries = f"; try {', or '.join(plan.advice)}" if plan.advice else ""
    return rows, f"does not fit, because {'; and '.join(plan.problems)}{tries}"


def _model_in_words(config: RunConfig, sizes: ModelSizes) -> str:
    trained, lora = trained_parameters(config, sizes), language_model(config).lora
    what = "all trained" if lora is None else f"{trained / 1e6:,.1f} million trained (LoRA of rank {lora.rank})"
    return f"{sizes.parameters / 1e9:,.3f} billion parameters, {what}"


def _rows(config: RunConfig, machine: Machine, plan: Plan) -> Iterator[Row]:
    trainers, servers = config.train.trainers, server_gpus(config)
    yield "GPUs", f"{machine.gpus} of {gib(machine.gpu_bytes)}: {trainers} for trainers, {servers} for vLLM servers"
    yield "each trainer", f"{gib(plan.trainer.peak)} at the most, of {gib(usable(machine))} that it can have"
    for name, words in PARTS.items():
        yield f"  {words}", gib(getattr(plan.trainer, name))
    if plan.server is not None:
        yield "each server GPU", f"{gib(plan.server.weights)} of weights, {gib(max(plan.server.cache, 0))} of KV cache"
        yield "  KV cache", f"{plan.server.tokens:,} tokens at {plan.server.cache_of_a_token:,} bytes"
    yield "host memory", gib(plan.host)
    yield "disk", f"{gib(plan.checkpoint)} a checkpoint, {gib(plan.version)} a published version"
