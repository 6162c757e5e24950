"""Models on the machine that is to load them: folders of the loop's machine come there, what is on a hub it has itself.

Invariant: what a worker gets in place of a path is a folder on its own machine, or an id of the hub that the loop's
machine has no folder for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ludus.config import LanguageModelConfig
from ludus.extras import LANGUAGE_MODELS, missing_packages
from ludus.lm.model_folder import BUILT_IN, built_in_folder, hub_problem
from ludus.runtime.node_files import NodeFiles


def folder_to_bring(path: str) -> Path | None:
    """The folder that a node is to get for a model of this machine; None for an id of the hub, which nodes load."""
    if path in BUILT_IN:
        return built_in_folder(path)
    folder = Path(path).expanduser()
    return folder if folder.is_dir() else None


def model_here(model: LanguageModelConfig, files: NodeFiles) -> LanguageModelConfig:
    """The model where this machine has it."""
    return model.model_copy(update={"path": files.model(model.path)})


def shape_here(shape: Mapping[str, Any], files: NodeFiles) -> dict[str, Any]:
    """A policy's shape as JSON, with the model that it stands on where it is here; a network's is as it was."""
    model = shape.get("model")
    if not isinstance(model, Mapping):
        return dict(shape)
    return {**shape, "model": {**model, "path": files.model(str(model["path"]))}}


def teacher_here(teacher: Mapping[str, Any], files: NodeFiles) -> dict[str, Any]:
    """A teacher as JSON, with its model and its adapters where they are here."""
    if not teacher:
        return {}
    adapter = str(teacher["adapter"])
    return {**shape_here(teacher, files), "adapter": str(files.outside(adapter)) if adapter else ""}


def node_problem(models: Sequence[str]) -> str:
    """Why this machine cannot have these models of the hub, in a few words; nothing if it can. Downloads nothing."""
    if missing := missing_packages("a language model", *LANGUAGE_MODELS):
        return missing
    problems = ((path, hub_problem(path)) for path in models)
    return next((f"it cannot have {path}: {problem}" for path, problem in problems if problem), "")
