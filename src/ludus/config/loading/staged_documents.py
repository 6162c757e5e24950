"""What is wrong with the stages of a document, in the words of the file: `run.yaml:9  stages.1.train.steps: ...`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as FilePath

from pydantic import ValidationError

from ludus.config.loading.stages import plain_values, stage_config, stage_place
from ludus.config.loading.yaml_text import Document
from ludus.config.problems import Path, Place, Problem
from ludus.config.run import RunConfig
from ludus.config.sections.stages import StageConfig


def stage_mistakes(document: Document, config: RunConfig | None, known: Sequence[Problem]) -> list[Problem]:
    """Check each stage of a document together with what is around it.

    Args:
        document: with its overrides.
        config: what it says as a whole; None when it has mistakes outside of its stages.
        known: those mistakes, which are not reported again.
    """
    stages = _read_stages(document) if config is None else config.stages
    if not stages:
        return []
    around = dict(document.content) if config is None else plain_values(config)
    around.pop("stages", None)
    said = {problem.path for problem in known}
    found: list[Problem] = []
    for index in range(len(stages)):
        _, mistakes = stage_config(around, stages, index, FilePath("runs"))
        found += [_placed(document, one) for one in mistakes if not _is_around(document, one.path, said)]
    return found


def _read_stages(document: Document) -> tuple[StageConfig, ...]:
    """The stages of a document that is wrong elsewhere; none when they are wrong themselves."""
    entries = document.content.get("stages") if isinstance(document.content, dict) else None
    try:
        return tuple(StageConfig.model_validate(entry) for entry in entries or ())
    except (TypeError, ValidationError):
        return ()


def _placed(document: Document, problem: Problem) -> Problem:
    start = Place(source=document.source, line=1 if document.places else None)
    place = stage_place(document.places, problem.path, start)
    return Problem(place=place, path=problem.path, text=problem.text)


def _is_around(document: Document, path: Path, said: set[Path]) -> bool:
    """Whether a mistake is not the stage's, and known already."""
    inside = path[2:]
    return path not in document.places and any(inside[:end] in said for end in range(1, len(inside) + 1))
