"""What the workers of a run import first: the framework of its policy, once in the fork server for all of them."""

from __future__ import annotations

from ludus.config import RunConfig

_WORKERS = ("ludus.explore.worker", "ludus.train.worker", "pandas")
"""pyarrow imports pandas with the first table that it makes, where that is installed."""


def worker_imports(config: RunConfig) -> tuple[str, ...]:
    """Modules for the fork server: none of them starts a thread or a device when it is imported."""
    if config.policy.model is None:
        return (*_WORKERS, "ludus.explore.actors", "ludus.explore.runners.host_runner", "ludus.train.jax_learner")
    return (
        *_WORKERS,
        "ludus.explore.runners.text_building",
        "ludus.inference.local.engine",
        "ludus.train.torch_learner",
    )
