"""The run that `ludus run` does without a config: Connect Four by self-play."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ludus.config.loading.load import is_stored, parse_config, parse_resolved, read_bounded
from ludus.config.run import RunConfig

DEMO_SOURCE = "demo.yaml"


def demo_text() -> str:
    """The demo's config, as YAML."""
    return files("ludus.config").joinpath(DEMO_SOURCE).read_text(encoding="utf-8")


def demo_config() -> RunConfig:
    """The demo's config, not yet resolved."""
    return parse_config(demo_text(), DEMO_SOURCE)


def load_or_demo(path: Path | None, overrides: Sequence[str] = ()) -> RunConfig:
    """Read and resolve a config file (None: the demo) with changes from the command line.

    Raises:
        ConfigError: anything is wrong; one line for each mistake.
    """
    if path is None:
        return parse_resolved(demo_text(), DEMO_SOURCE, overrides)
    return parse_resolved(read_bounded(path), str(path), overrides, stored=is_stored(path))
