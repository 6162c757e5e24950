"""From plain values to a `RunConfig`, or to problems that a person can act on.

pydantic decides what is wrong; this module says it in the words of the file: key path, expectation, what was found and
which key or word was probably meant.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ludus.config.loading.expectations import choices, expected
from ludus.config.loading.renamed import new_keys, new_word
from ludus.config.loading.slots import Slot, find_slot, slots_of
from ludus.config.loading.suggestions import nearest_key
from ludus.config.problems import (
    MAX_PROBLEMS,
    Path,
    Place,
    Problem,
    Unrepeatable,
    dotted,
    nearest_place,
    nearest_word,
    show,
)
from ludus.config.run import RunConfig

_YES_OR_NO = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def validate(content: Any, places: dict[Path, Place], source: str) -> tuple[RunConfig | None, list[Problem]]:
    """Check plain values against the schema: a config, or everything that is wrong with them."""
    start = Place(source=source, line=1 if places else None)
    if not isinstance(content, dict):
        found = "nothing" if content is None else show(content)
        text = f"expected a mapping with at least the keys name and games, got {found}"
        return None, [Problem(place=nearest_place(places, (), start), text=text)]
    try:
        return RunConfig.model_validate(content), []
    except ValidationError as error:
        return None, _translate(error, places, start)


def _translate(error: ValidationError, places: dict[Path, Place], start: Place) -> list[Problem]:
    problems: dict[Path, Problem] = {}
    for details in error.errors(include_url=False):
        path, slot = _locate(details)
        if path in problems or _is_echo(details):
            continue
        # Wording costs time, and beyond the limit nobody will see it.
        text = _describe(details, path, slot) if len(problems) < MAX_PROBLEMS else details["msg"]
        problems[path] = Problem(place=nearest_place(places, path, start), path=path, text=text)
    return list(problems.values())


def _is_echo(details: ErrorDetails) -> bool:
    """Whether a list counts as too short only because its entries are wrong, which is reported by itself."""
    return details["type"] == "too_short" and bool(details["input"])


def _locate(details: ErrorDetails) -> tuple[Path, Slot | None]:
    path, slot = find_slot(RunConfig, details["loc"])
    if details["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return (*path, "kind"), slot
    return path, slot


def _describe(details: ErrorDetails, path: Path, slot: Slot | None) -> str:
    match details["type"]:
        case "extra_forbidden":
            return _unknown_key(details, path)
        case "missing":
            return f"missing; expected {expected(slot)}" if slot else "missing"
        case "union_tag_not_found":
            return f"missing; expected {choices(list(slot.variants))}" if slot else "missing"
        case "union_tag_invalid":
            return _wrong_word(details["input"]["kind"], list(slot.variants) if slot else [])
        case "value_error" if isinstance(details["ctx"]["error"], Unrepeatable):
            return str(details["ctx"]["error"])
        case "value_error":
            return f"{details['ctx']['error']}, got {show(details['input'])}"
        case "literal_error" if slot:
            if renamed := new_word(path, details["input"]):
                return f"{show(details['input'])} has another name now; write {renamed}"
            return _wrong_word(details["input"], list(slot.kind.__args__))
        case _:
            return _wrong_value(details["input"], slot)


def _unknown_key(details: ErrorDetails, path: Path) -> str:
    if renamed := new_keys(path, details["input"]):
        return f"has another name now; write {' and '.join(renamed)}"
    _, around = find_slot(RunConfig, details["loc"][:-1])
    siblings = list(slots_of(around.model)) if around and around.model else []
    if near := nearest_key(RunConfig, path, siblings):
        return f"unknown key — did you mean {near}?"
    # Inside a union, the part of the location that the path does not have is the variant.
    variant = details["loc"][-2] if len(details["loc"]) > 1 and details["loc"][-2] not in path else None
    where = (dotted(path[:-1]) or "the top level") + (f" with kind: {variant}" if variant else "")
    return f"unknown key; {where} takes {', '.join(siblings)}"


def _wrong_word(found: Any, words: list[str]) -> str:
    near = nearest_word(found, words) if isinstance(found, str) else None
    return f"expected {choices(words)}, got {show(found)}" + (f" — did you mean {near}?" if near else "")


def _wrong_value(found: Any, slot: Slot | None) -> str:
    text = f"expected {expected(slot) if slot else 'another value'}, got {show(found)}"
    if slot and slot.kind is bool and isinstance(found, str) and found.lower() in _YES_OR_NO:
        return f"{text} — write {_YES_OR_NO[found.lower()]}"
    return text
