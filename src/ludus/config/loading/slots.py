"""The schema seen from outside: which keys there are, and what each of them takes.

A `Slot` is one place of the schema where a value can stand. Error messages and suggestions are made from slots, so
they follow the models of this room by themselves.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from ludus.config.base import Model
from ludus.config.problems import Path

_UNIONS = (Union, types.UnionType)
ANY_NAME = "NAME"
"""Stands for the names that a user chooses, where paths of the schema are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What may stand at one place: a type without `None`, and its limits."""

    kind: Any
    limits: tuple[Any, ...] = ()
    """pydantic's and annotated_types' metadata, such as `Gt(gt=0)`."""
    examples: tuple[Any, ...] = ()

    @property
    def model(self) -> type[Model] | None:
        """The model whose keys stand here, if it is one."""
        return self.kind if isinstance(self.kind, type) and issubclass(self.kind, Model) else None

    @property
    def variants(self) -> dict[str, type[Model]]:
        """By `kind:`, the models one of which stands here; empty when there is no choice."""
        members = get_args(self.kind) if get_origin(self.kind) in _UNIONS else ()
        if not members or not all(isinstance(member, type) and issubclass(member, Model) for member in members):
            return {}
        return {get_args(member.model_fields["kind"].annotation)[0]: member for member in members}

    @property
    def item(self) -> Slot | None:
        """What the entries of a list or the values of a free mapping are."""
        if get_origin(self.kind) is tuple:
            return make_slot(get_args(self.kind)[0])
        if get_origin(self.kind) is dict:
            return make_slot(get_args(self.kind)[1])
        return None


def make_slot(annotation: Any, limits: tuple[Any, ...] = (), examples: tuple[Any, ...] = ()) -> Slot:
    """Strip `Annotated` and `None` from a type; what is left and what was said beside it is the slot."""
    if get_origin(annotation) is Annotated:
        inner, *extras = get_args(annotation)
        for extra in extras:
            limits = (*limits, *(extra.metadata if isinstance(extra, FieldInfo) else [extra]))
        return make_slot(inner, limits, examples)
    if get_origin(annotation) in _UNIONS:
        members = tuple(member for member in get_args(annotation) if member is not type(None))
        if len(members) == 1:
            return make_slot(members[0], limits, examples)
        if len(members) < len(get_args(annotation)):
            return Slot(kind=Union[members], limits=limits, examples=examples)  # noqa: UP007
    return Slot(kind=annotation, limits=limits, examples=examples)


@cache
def slots_of(model: type[Model]) -> dict[str, Slot]:
    """The keys of a model, in their order."""
    return {
        name: make_slot(field.annotation, tuple(field.metadata), tuple(field.examples or ()))
        for name, field in model.model_fields.items()
    }


def find_slot(root: type[Model], location: Path) -> tuple[Path, Slot | None]:
    """Follow a location as pydantic gives it, which also names the chosen variant of each union.

    Returns:
        The key path as the user knows it, and its slot (None for a key that does not exist).
    """
    path: Path = ()
    slot: Slot | None = Slot(kind=root)
    for part in location:
        if slot is None:
            break
        if slot.variants:
            slot = Slot(kind=slot.variants[str(part)])
        elif slot.model:
            path, slot = (*path, part), slots_of(slot.model).get(str(part))
        elif slot.item:
            path, slot = (*path, part), slot.item
    return path, slot


def _models(slot: Slot) -> list[type[Model]]:
    return [slot.model] if slot.model else list(slot.variants.values())


@cache
def all_paths(root: type[Model]) -> tuple[Path, ...]:
    """Every key path of the schema once; entries of lists are shown as number 0, those of free mappings as `NAME`."""
    return tuple(dict.fromkeys(_walk(Slot(kind=root), ())))


def _walk(slot: Slot, path: Path) -> Iterator[Path]:
    if slot.item:
        yield from _walk(slot.item, (*path, 0 if get_origin(slot.kind) is tuple else ANY_NAME))
    for model in _models(slot):
        for key, inner in slots_of(model).items():
            yield (*path, key)
            yield from _walk(inner, (*path, key))
