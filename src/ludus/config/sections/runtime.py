"""`runtime`: processes and threads, and where they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from ludus.config.base import Model, TextOrMapping
from ludus.config.problems import Contradiction, at, no_effect

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_RAYS_OWN = ("CPU", "GPU", "memory", "object_store_memory")
_LABEL = re.compile(r"!?((in)?\([\w.-]+(, ?[\w.-]+)*\)|[\w.-]+)", re.ASCII)


class NeedsConfig(Model):
    """What each worker of a room takes of the node that it runs on."""

    cpus: float | None = Field(default=None, ge=0, le=4096)
    """CPUs that Ray sets aside. Default: as many as the worker has threads."""
    gpus: float = Field(default=0, ge=0, le=4096)
    """GPUs that Ray sets aside; a share below 1 lets workers share one. The worker sees no others."""
    resources: dict[str, float] = Field(default={}, examples=[{"big_disk": 1}])
    """Custom resources of the cluster (`ray start --resources`), by name."""
    labels: dict[str, str] = Field(default={}, examples=[{"ray.io/accelerator-type": "in(A100, H100)"}])
    """Labels that the node must have (`ray start --labels`): a value, `!value`, `in(a, b)` or `!in(a, b)`."""

    @field_validator("gpus")
    @classmethod
    def _check_gpus(cls, value: float | None) -> float | None:
        if value is not None and value > 1 and value != int(value):
            raise ValueError("expected a share of one GPU, or a whole number of them")
        return value

    @field_validator("resources")
    @classmethod
    def _check_resources(cls, value: dict[str, float]) -> dict[str, float]:
        for name, amount in value.items():
            if name in _RAYS_OWN:
                raise ValueError(f"{name} is no custom resource; write cpus or gpus")
            if amount <= 0 or (amount > 1 and amount != int(amount)):
                raise ValueError(f"{name}: expected a share of one, or a whole number of them")
        return value

    @field_validator("labels")
    @classmethod
    def _check_labels(cls, value: dict[str, str]) -> dict[str, str]:
        for name, wanted in value.items():
            if not _LABEL.fullmatch(wanted):
                raise ValueError(f"{name}: expected a value, !value, in(a, b) or !in(a, b)")
        return value


class ServerNeedsConfig(NeedsConfig):
    """What each inference server takes of the node that it runs on."""

    gpus: float | None = Field(default=None, ge=0, le=4096)  # type: ignore[assignment]
    """GPUs that Ray sets aside. Default: as many as `explore.engine.tensor_parallel`."""


class RuntimeConfig(TextOrMapping):
    """Processes and threads, on this machine or on the nodes of a Ray cluster."""

    shorthand: ClassVar[str] = "local or ray"
    shorthand_key: ClassVar[str] = "kind"

    kind: Literal["local", "ray"] = "local"
    """Where explorers and the trainer run: `local`, as processes of this machine; `ray`, on the nodes of a Ray cluster
    (docs/ray.md)."""
    address: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9_.\-]{1,253}:[0-9]{1,5}$", examples=["10.0.0.1:6379"]
    )
    """Kind ray: host and port of the cluster to join. Default: ludus starts a cluster on this machine and stops it."""
    interface: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.\-]{1,15}$", examples=["eth0"])
    """Kind ray, with `train.trainers`: the network interface of each node by which trainers reach each other. Default:
    the one by which Ray's nodes do."""
    explore: NeedsConfig = NeedsConfig()
    """Kind ray: what each explorer takes of a node."""
    train: NeedsConfig = NeedsConfig()
    """Kind ray: what each trainer takes of a node."""
    engine: ServerNeedsConfig = ServerNeedsConfig()
    """Kind ray, with `explore.engine.servers`: what each server takes of a node; explorers then run beside servers."""
    autoscaler_s: float | None = Field(default=None, gt=0, examples=[600])
    """Kind ray: the cluster has an autoscaler, which is asked for what no node has, and may take so many seconds to add
    it. Default: it has none, and a worker that fits on no node is an error at once."""
    threads: int | None = Field(default=None, gt=0)
    """Compute threads of the process that trains. Default: 1 in the split topology; in the fused one what the other
    processes leave of the cores, at most 4. With several shards: one for each (`train.shards`)."""
    max_restarts: int = Field(default=5, ge=0)
    """Restarts of a worker within ten minutes before the run fails."""
    stall_s: float = Field(default=600.0, gt=0)
    """Seconds that a trainer may take for one update before it counts as hung; an explorer's limit is
    `explore.deadline_s`."""


def check_runtime(config: RunConfig) -> Iterator[Contradiction]:
    """What the nodes of a cluster cannot do."""
    if config.runtime.kind != "ray":
        for key in ("address", "interface"):
            if getattr(config.runtime, key) is not None:
                yield at(f"runtime.{key}", f"is for runtime.kind: ray; add that, or leave the {key} out")
        for key in ("explore", "train", "engine", "autoscaler_s"):
            yield from no_effect(config.runtime, "runtime", key, "runtime.kind: local has no nodes to choose from")
        return
    if config.runtime.address is None:
        yield from _own_cluster(config.runtime)
    engine = config.explore.engine
    if engine.kind != "vllm" or engine.servers is None:
        why = "it is for the servers that a run starts (explore.engine.servers)"
        yield from no_effect(config.runtime, "runtime", "engine", why)
    if engine.kind == "vllm" and engine.url is not None and urlsplit(engine.url).hostname not in _LOOPBACK:
        text = "adapters are on the disk of the explorer's node; write a server of each node, such as"
        yield at("explore.engine.url", f"{text} http://127.0.0.1:8000/v1")


def _own_cluster(runtime: RuntimeConfig) -> Iterator[Contradiction]:
    """A cluster that ludus starts has one node, this machine: there is nothing to choose."""
    why = "ludus starts a cluster of one node where runtime.address is left out"
    yield from no_effect(runtime, "runtime", "autoscaler_s", why)
    for room, needs in (("explore", runtime.explore), ("train", runtime.train), ("engine", runtime.engine)):
        for key in ("cpus", "resources", "labels"):
            yield from no_effect(needs, f"runtime.{room}", key, why)
