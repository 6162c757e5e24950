"""From plain values to a `RunConfig`, or to problems that a person can act on.

pydantic decides what is wrong; this module says it in the words of the file: key path, what was expected (such as
`a number > 0`), what was found and which key or word was probably meant: the nearest by spelling, first beside the
mistake, then anywhere in the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ludus.config.base import Model
from ludus.config.loading.renamed import new_keys, new_word
from ludus.config.loading.slots import Slot, all_paths, find_slot, slots_of
from ludus.config.problems import (
    CLOSE,
    MAX_PROBLEMS,
    Path,
    Place,
    Problem,
    Unrepeatable,
    dotted,
    likeness,
    nearest_place,
    nearest_word,
    show,
)
from ludus.config.run import RunConfig

MAX_KEY = 40

# What other libraries call our keys. A test checks that each of these exists.
KNOWN_AS: dict[str, str] = {
    "lr": "train.optimizer.learning_rate",
    "batch_size": "train.minibatch",
    "minibatch_size": "train.minibatch",
    "n_envs": "explore.games_in_flight",
    "num_envs": "explore.games_in_flight",
    "num_worker": "explore.workers",
    "num_workers": "explore.workers",
    "total_timesteps": "train.steps",
    "total_steps": "train.steps",
    "n_epochs": "train.epochs",
    "gae_lambda": "train.algorithm.advantage.lam",
    "discount": "train.algorithm.advantage.gamma",
    "target_kl": "train.algorithm.kl_stop",
    "env": "games",
    "game": "games",
    "algo": "train.algorithm.preset",
    "hidden_sizes": "policy.network.hidden",
}
_SIGNS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
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


def nearest_key(root: type[Model], path: Path, siblings: Iterable[str]) -> str | None:
    """The key path that was probably meant by one that does not exist beside its siblings."""
    parent, key = path[:-1], str(path[-1])
    if len(key) > MAX_KEY:
        return None
    score, near = max(((likeness(key, other), (*parent, other)) for other in siblings), default=(0.0, path))
    if score < 0.8 and key in KNOWN_AS:
        return KNOWN_AS[key]
    # A key from elsewhere must fit clearly better than one from the same mapping.
    far_score, far = _nearest_anywhere(root, path)
    if far_score > score + 0.2:
        score, near = far_score, far
    return dotted(near) if score >= CLOSE else None


def _nearest_anywhere(root: type[Model], path: Path) -> tuple[float, Path]:
    """The best match by last key; of equal ones, the one nearest to where the user wrote it."""
    parent, key = path[:-1], str(path[-1])
    here = tuple(0 if isinstance(part, int) else part for part in path)
    others = [other for other in all_paths(root) if other != here]
    scored = [(likeness(key, str(other[-1])), _shared(parent, other), -len(other), other) for other in others]
    score, _, _, best = max(scored, key=lambda found: found[:3])
    return score, best


def _shared(one: Path, other: Path) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
