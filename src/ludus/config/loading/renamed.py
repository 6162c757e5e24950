"""Keys and words that had another name: errors say the new one, and the configs of older runs are upgraded.

A user's file with an old name is refused; the `config.yaml` that a run has stored is read with the new names.
To rename a key: a line in `KEYS`. To rename a word: a line in `WORDS`.
"""

from __future__ import annotations

from typing import Any

from ludus.config.problems import Path, dotted

_SAMPLING = ("max_tokens", "ignore_end", "temperature", "top_p", "top_k")
_PROMPT = ("action", "invalid_moves", "invalid_reward", "max_turns", "rows")

KEYS: dict[str, str] = {
    "explore.speech.prompt": "explore.prompt.template",
    **{f"explore.speech.{key}": f"explore.prompt.{key}" for key in _PROMPT},
    **{f"explore.speech.{key}": f"explore.sampling.{key}" for key in _SAMPLING},
}
"""Old key path -> new key path."""

WORDS: dict[tuple[str, str], str] = {("train.algorithm.objective.0.source", "usual"): "on_policy"}
"""(Key path, old word) -> new word; entries of lists are number 0."""


def new_keys(path: Path, value: Any) -> list[str]:
    """Where to write what stands at an old key path; nothing for a path that never was one."""
    old = dotted(path)
    if old in KEYS:
        return [KEYS[old]]
    inside = {key.removeprefix(f"{old}."): new for key, new in KEYS.items() if key.startswith(f"{old}.")}
    written = [new for key, new in inside.items() if isinstance(value, dict) and key in value]
    return written or list(dict.fromkeys(new.rpartition(".")[0] for new in inside.values()))


def new_word(path: Path, word: Any) -> str | None:
    """The word that stands for an old one now."""
    return WORDS.get((_general(path), word)) if isinstance(word, str) else None


def upgrade(content: Any) -> Any:
    """The plain values of a stored config with all names as they are now, in its stages and learners too."""
    if not isinstance(content, dict):
        return content
    content = _with_new_words(content, ())
    for old, new in KEYS.items():
        _move(content, old.split("."), new.split("."))
    if isinstance(stages := content.get("stages"), list):
        content["stages"] = [upgrade(stage) for stage in stages]
    learners = _inside(content, ["population", "learners"])
    for learner in learners.values() if learners else ():
        if isinstance(learner, dict) and "changes" in learner:
            learner["changes"] = upgrade(learner["changes"])
    return content


def _with_new_words(node: Any, path: Path) -> Any:
    if isinstance(node, dict):
        return {key: _with_new_words(value, (*path, key)) for key, value in node.items()}
    if isinstance(node, list):
        return [_with_new_words(value, (*path, 0)) for value in node]
    return new_word(path, node) or node


def _move(content: dict[str, Any], old: list[str], new: list[str]) -> None:
    """Take a value from one path to another; a mapping that is empty then goes. What is malformed stays as it is."""
    source = _inside(content, old[:-1])
    if source is None or old[-1] not in source:
        return
    target: Any = content
    for key in new[:-1]:
        target = target.setdefault(key, {}) if isinstance(target, dict) else None
    if isinstance(target, dict):
        target[new[-1]] = source.pop(old[-1])
        if not source and (around := _inside(content, old[:-2])):
            around.pop(old[-2])


def _inside(node: Any, path: list[str]) -> dict[str, Any] | None:
    """The mapping at a path, if there is one."""
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None


def _general(path: Path) -> str:
    return dotted(tuple(0 if isinstance(part, int) else part for part in path))
