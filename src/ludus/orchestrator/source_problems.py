"""Whether what an objective learns from can be had in a run: checked before anything is played."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.config import RunConfig, wanted_sources


def source_problems(config: RunConfig) -> Iterator[str]:
    """What is learnt from and not there, or there and not learnt from; one line each."""
    algorithm = config.train.algorithm
    wanted = wanted_sources(algorithm)
    if config.buffer.loader is not None:
        return
    for source in ("expert", "pairs"):
        is_given = getattr(config.buffer, source) is not None
        if source in wanted and not is_given:
            yield f"buffer.{source}: train.algorithm learns from {source}, and there is none; write its sources"
        if is_given and source not in wanted:
            yield f"buffer.{source}: nothing in train.algorithm learns from it; write a term with source: {source}"
