"""From a file or plain values to a `RunConfig`; without a file, the demo: Connect Four by self-play.

Invariant: bad input raises one `ConfigError` with a line for every mistake, and never anything else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from ludus.config.loading.derive import fill_and_check
from ludus.config.loading.overrides import apply_overrides
from ludus.config.loading.renamed import upgrade
from ludus.config.loading.stages import stage_mistakes, stage_place
from ludus.config.loading.validation import validate
from ludus.config.loading.yaml_text import MAX_BYTES, Document, read_yaml
from ludus.config.problems import Path as KeyPath
from ludus.config.problems import Place, Problem, refusal
from ludus.config.run import RunConfig
from ludus.errors import ConfigError

DEMO_SOURCE = "demo.yaml"


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a config file, with changes from the command line.

    Raises:
        ConfigError: the file cannot be read, or its content is not a config.
    """
    return parse_config(read_bounded(path), str(path), overrides, stored=is_stored(path))


def parse_config(text: str | bytes, name: str, overrides: Sequence[str] = (), *, stored: bool = False) -> RunConfig:
    """Read a config from text.

    Args:
        text: YAML.
        name: stands for the file in messages.
        overrides: changes from the command line.
        stored: it is the `config.yaml` of a run, in which older names are upgraded.
    """
    config, _ = parse_document(_document(text, name, stored=stored), overrides)
    return config


def parse_resolved(text: str | bytes, name: str, overrides: Sequence[str] = (), *, stored: bool = False) -> RunConfig:
    """Read a config from text and resolve it; contradictions are reported with the line of the key they are about.

    One with stages is given back as it was written: each of them is resolved for itself (`resolve_stages`).
    """
    config, places = parse_document(_document(text, name, stored=stored), overrides)
    filled, found = fill_and_check(config)
    if found:
        start = Place(source=name, line=1)
        raise refusal(
            Problem(place=stage_place(places, one.path, start), path=one.path, text=one.text) for one in found
        )
    return filled


def build_config(values: Mapping[str, Any], overrides: Sequence[str] = (), name: str = "config") -> RunConfig:
    """Make a config from plain values, as a YAML file would hold them."""
    config, _ = parse_document(Document(source=name, content=dict(values)), overrides)
    return config


def _document(text: str | bytes, name: str, *, stored: bool) -> Document:
    document = read_yaml(text, name)
    return replace(document, content=upgrade(document.content)) if stored and document.is_whole else document


def is_stored(path: Path) -> bool:
    """Whether a file is the config that a run has stored, not one that a user writes."""
    return path.name == "config.yaml" and any((path.parent / name).exists() for name in ("format.json", "stages.json"))


def parse_document(document: Document, overrides: Sequence[str]) -> tuple[RunConfig, dict[KeyPath, Place]]:
    """Turn a document into a config, and say where each of its keys was written."""
    if not document.is_whole:
        raise refusal(document.problems)
    document = apply_overrides(document, overrides)
    config, mistakes = validate(document.content, document.places, document.source)
    mistakes += stage_mistakes(document, config, mistakes)
    known = {problem.path for problem in document.problems if problem.path}
    problems = [*document.problems, *(found for found in mistakes if not _is_covered(found.path, known))]
    if problems or config is None:
        raise refusal(problems)
    return config, document.places


def _is_covered(path: KeyPath, known: set[KeyPath]) -> bool:
    """Whether something was already said about this value or one around it."""
    return any(path[:end] in known for end in range(1, len(path) + 1))


def read_bounded(path: Path) -> bytes:
    """Read a file, but no more of it than shows that it is too large."""
    try:
        # A named pipe would be waited for: its writer may never come.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{path}: is no file, but a pipe, a device or a socket; a config is a file")
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read: {reason}") from None


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
