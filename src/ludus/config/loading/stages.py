"""A config with `stages`, taken apart: each stage as the ordinary run that it is.

What is wrong with one is said in the words of the file: `run.yaml:9  stages.1.train.steps: ...`.

Invariant: what a stage is follows from the `RunConfig` alone. A stage begins with the policy of the one before it, so
that `policy.start` of every stage but the first is not the user's to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ludus.config.loading.validation import validate
from ludus.config.loading.yaml_text import Document
from ludus.config.problems import Contradiction, Place, Problem, dotted, nearest_place, report
from ludus.config.problems import Path as KeyPath
from ludus.config.run import RunConfig
from ludus.config.sections.stages import StageConfig
from ludus.errors import ConfigError


def split_stages(config: RunConfig, directory: Path | None = None) -> tuple[RunConfig, ...]:
    """The config of every stage, not yet resolved; of a config without stages, itself.

    Args:
        config: as `load_config` gives it.
        directory: where the run lives, so that stages can say whose policy they begin with.

    Raises:
        ConfigError: a stage is not a config; one line for each mistake.
    """
    if not config.stages:
        return (config,)
    values, home = plain_values(config), directory or config.home
    found = [stage_config(values, config.stages, index, home) for index in range(len(config.stages))]
    if problems := [problem for _, mistakes in found for problem in mistakes]:
        raise ConfigError(*report(problems))
    return tuple(each for each, _ in found if each is not None)


def stage_folder(index: int, name: str) -> str:
    """The folder of a stage; `index` counts from 0, folders from 1."""
    return f"{index + 1}_{name}"


def plain_values(config: RunConfig) -> dict[str, Any]:
    """What was written around the stages, without the defaults: those may follow from what a stage changes."""
    return config.model_dump(mode="json", exclude_unset=True, exclude={"stages"})


def stage_config(
    around: Mapping[str, Any], stages: tuple[StageConfig, ...], index: int, home: Path
) -> tuple[RunConfig | None, list[Problem]]:
    """One stage, or what is wrong with it; paths of problems begin with `stages`."""
    stage = stages[index]
    values = join(around, stage.changes)
    values["name"] = f"{around.get('name')}.{stage.name}"
    values.pop("stages", None)
    if index:
        before = home / stage_folder(index - 1, stages[index - 1].name)
        policy = values.get("policy")
        if isinstance(policy, dict | None):
            values["policy"] = {**(policy or {}), "start": str(before)}
        values["warm_start"] = None
    config, mistakes = validate(values, {}, "config")
    return config, [Problem(place=one.place, path=stage_path(index, one.path), text=one.text) for one in mistakes]


def join(around: Any, change: Any) -> Any:
    """Mappings key by key; anything else is replaced, and so is a mapping by one of another `kind`."""
    if not isinstance(around, Mapping) or not isinstance(change, Mapping) or _is_another_kind(around, change):
        return change
    return {**around, **{key: join(around[key], value) if key in around else value for key, value in change.items()}}


def stage_path(index: int, path: KeyPath) -> KeyPath:
    """Where the user would write what is at a path of a stage's config. Its name is the run's and the stage's."""
    return ("stages", index, *path)


def stage_place(places: Mapping[KeyPath, Place], path: KeyPath, default: Place) -> Place:
    """Find where a key of a stage, `stages.1.train.steps`, was written: in the stage, or in the config around it."""
    if path[0] != "stages":
        return nearest_place(places, path, default)
    head, rest = path[:2], path[2:]
    before_list = next((rest[:end] for end, part in enumerate(rest) if isinstance(part, int)), None)
    if before_list is not None and (*head, *before_list) in places:
        return nearest_place(places, path, default)  # a stage's list replaces the one around it
    for end in range(len(rest), 0, -1):
        for written in ((*head, *rest[:end]), rest[:end]):
            if written in places:
                return places[written]
    return places.get(head, default)


def stage_contradictions(config: RunConfig, filled: tuple[RunConfig, ...]) -> Iterator[Contradiction]:
    """What cannot hold between stages; `filled` are their configs."""
    names = [stage.name for stage in config.stages]
    if config.mode == "evaluate":
        text = "a run in stages trains; to measure a stage write stages: [] and policy.start: runs/x/1_sft beside it"
        yield Contradiction(path=("mode",), text=text)
    for index, stage in enumerate(config.stages):
        if stage.name in names[:index]:
            first = dotted(("stages", names.index(stage.name)))
            yield _at(index, ("name",), f"{stage.name} is already the name of {first}; write another")
        if "stages" in stage.changes:
            yield _at(index, ("stages",), "a stage has no stages of its own; write them one after the other")
        if index:
            yield from _follows(index, stage, filled[index - 1], filled[index])


def _follows(index: int, stage: StageConfig, before: RunConfig, mine: RunConfig) -> Iterator[Contradiction]:
    policy = stage.changes.get("policy")
    if isinstance(policy, Mapping) and policy.get("start") is not None:
        text = f"begins with the policy of the stage before it ({before.name}); only the first stage has a start"
        yield _at(index, ("policy", "start"), text)
    if stage.changes.get("warm_start") is not None:
        yield _at(index, ("warm_start",), "only the first stage can have a warm start; leave it out")
    for key in ("name", "network"):
        if getattr(mine.policy, key) != getattr(before.policy, key):
            yield _at(index, ("policy", key), "differs from the stage before, whose policy this one continues")
    theirs, model = before.policy.model, mine.policy.model
    if (theirs is None) != (model is None):
        yield _at(index, ("policy", "model"), "the stage before trains another kind of policy; write the same model")
    elif model is not None and theirs is not None:
        for key in ("path", "lora"):
            if getattr(model, key) != getattr(theirs, key):
                text = "differs from the stage before, whose weights this one starts with; write the same"
                yield _at(index, ("policy", "model", key), text)


def _at(index: int, path: KeyPath, text: str) -> Contradiction:
    return Contradiction(path=stage_path(index, path), text=text)


def _is_another_kind(around: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
    return "kind" in around and "kind" in change and around["kind"] != change["kind"]


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
        _, mistakes = stage_config(around, stages, index, Path("runs"))
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


def _is_around(document: Document, path: KeyPath, said: set[KeyPath]) -> bool:
    """Whether a mistake is not the stage's, and known already."""
    inside = path[2:]
    return path not in document.places and any(inside[:end] in said for end in range(1, len(inside) + 1))
