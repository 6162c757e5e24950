"""What a slot expects, in words: `a number > 0`, `one of mlp, resnet`, `true or false`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from ludus.config.loading.slots import Slot, slots_of
from ludus.config.problems import show

_SIGNS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))


def expected(slot: Slot) -> str:
    """Say what may stand at a slot."""
    if slot.variants or slot.model:
        return _expected_mapping(slot)
    origin = get_origin(slot.kind)
    if origin is Literal:
        return choices(get_args(slot.kind))
    if origin is tuple:
        return "a list" + (" with at least one entry" if _limit(slot, "min_length") else "")
    if origin is dict:
        return "a mapping"
    if members := get_args(slot.kind):
        return " or ".join(dict.fromkeys(expected(Slot(kind=member)) for member in members))
    return _expected_scalar(slot)


def choices(names: Sequence[Any]) -> str:
    """`mlp or resnet`; `a, b or c`."""
    words = [str(name) for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _expected_scalar(slot: Slot) -> str:
    if slot.kind is bool:
        return "true or false"
    if slot.kind in (int, float):
        return " ".join(["a whole number" if slot.kind is int else "a number", _range(slot)]).strip()
    pattern = _limit(slot, "pattern")
    if pattern and slot.examples:
        return f"text such as {show(slot.examples[0])} (matching {pattern})"
    return f"text matching {pattern}" if pattern else "text"


def _expected_mapping(slot: Slot) -> str:
    if slot.variants:
        return f"a mapping with kind: {choices(list(slot.variants))}"
    model = slot.model
    if model is None or not model.shorthand:
        return f"a mapping (keys: {', '.join(slots_of(model))})" if model else "a mapping"
    return f"{model.shorthand}, or a mapping (keys: {', '.join(slots_of(model))})"


def _range(slot: Slot) -> str:
    parts = [f"{sign} {_limit(slot, name)}" for name, sign in _SIGNS if _limit(slot, name) is not None]
    return " and ".join(parts)


def _limit(slot: Slot, name: str) -> Any:
    return next((value for limit in slot.limits if (value := getattr(limit, name, None)) is not None), None)
