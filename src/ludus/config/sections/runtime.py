"""`runtime`: processes and threads, and where they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from ludus.config.base import TextOrMapping
from ludus.config.problems import Contradiction, at

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


_LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
        return
    engine = config.explore.engine
    if engine.kind == "vllm" and urlsplit(engine.url).hostname not in _LOOPBACK:
        text = "adapters are on the disk of the explorer's node; write a server of each node, such as"
        yield at("explore.engine.url", f"{text} http://127.0.0.1:8000/v1")
