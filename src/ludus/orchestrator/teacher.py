"""The teacher of a run (`policy.teacher`): found and checked before anything is played, kept as long as the run is.

Invariant: a run has one teacher from its first start to its last. A version of another run's policy is copied into
`teacher/` once, so neither that run's progress nor its end changes it. The model below its adapters is not copied, and
neither is a model that the config names by its path: those must stay as they are.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ludus.config import LanguageModelConfig, RunConfig, TeacherConfig
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.teachers import TeacherModel, check_same_tokens
from ludus.orchestrator.policy_start import find_start, find_version
from ludus.policies import PolicyStore
from ludus.records import PolicyRef
from ludus.storage.atomic import ensure_directory, publish_directory, temporary_name
from ludus.storage.run_directory import RunDirectory, find_run

_KEY = "policy.teacher.run"


def check_teacher(config: RunConfig, run: RunDirectory | None = None) -> None:
    """See that the teacher is there and speaks in the policy's tokens; `run` may have kept it already.

    Raises:
        ConfigError: it is not, or it does not.
    """
    teacher, model = config.policy.teacher, config.policy.model
    if teacher is None or model is None:
        return
    start = find_start(config)
    mine = start.shape.model.path if start and isinstance(start.shape, LanguageModelShape) else model.path
    kept = None if run is None else _kept(run)
    if kept is not None:
        check_same_tokens(mine, _as_model(teacher, PolicyStore(run.teacher), kept).model.path)  # type: ignore[union-attr]
    elif teacher.run is not None:
        check_same_tokens(mine, find_version(_KEY, teacher.run).shape.model.path)
    else:
        check_same_tokens(mine, str(teacher.path))


def keep_teacher(config: RunConfig, run: RunDirectory) -> TeacherModel | None:
    """The teacher as the trainer loads it; another run's version is copied first, if it was not before."""
    teacher = config.policy.teacher
    if teacher is None:
        return None
    if teacher.run is None:
        return TeacherModel(model=LanguageModelConfig(path=str(teacher.path), lora=None, dtype=teacher.dtype))
    return _as_model(teacher, PolicyStore(run.teacher), _kept(run) or _copy(teacher.run, run))


def _kept(run: RunDirectory) -> PolicyRef | None:
    store = PolicyStore(run.teacher)
    return next((ref for name in store.names() for ref in store.versions(name)), None)


def _copy(text: str, run: RunDirectory) -> PolicyRef:
    """A version never changes, so its files are shared where the file system can do that."""
    found = find_version(_KEY, text)
    final = PolicyStore(run.teacher).path(found.policy)
    ensure_directory(final.parent)
    staging = temporary_name(final.parent)
    shutil.copytree(PolicyStore(found.run.policies).path(found.policy), staging, copy_function=_link)
    publish_directory(staging, final)
    return found.policy


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _as_model(teacher: TeacherConfig, store: PolicyStore, ref: PolicyRef) -> TeacherModel:
    shape = store.shape(ref)
    assert isinstance(shape, LanguageModelShape)  # noqa: S101 - `find_version` has made sure
    if shape.model.lora is None:
        return TeacherModel(model=LanguageModelConfig(path=str(store.path(ref)), lora=None, dtype=teacher.dtype))
    below = shape
    if not Path(shape.model.path).is_dir():  # an id on the hub, or a warm start of a run that has been moved since
        below = shape.standing_on(find_run(Path(str(teacher.run).partition("@")[0])).base)
    model = below.model.model_copy(update={"dtype": teacher.dtype, "context": None})
    return TeacherModel(model=model, adapter=str(store.path(ref)))
