"""A Gymnasium environment in words: text as it is, numbers by the words that the config has for them.

Invariant: what the policy writes reaches the environment only as one of its actions. An id is looked up among those
that are registered; one that names a module to import cannot be written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ludus.config.sections.workflow import GymnasiumConfig
from ludus.errors import ConfigError, EnvError
from ludus.extras import need_packages
from ludus.games.move_text import find_move
from ludus.games.protocol import InvalidMove
from ludus.workflows.environments import EnvStep

SEEDS = 2**31
"""Environments take seeds below this."""
_HIGHLIGHTED = re.compile(r"\x1b\[(?P<style>[0-9;]*)m(?P<text>[^\x1b]*)\x1b\[0m")
_CODE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class GymnasiumWords:
    """One attempt in a Gymnasium environment."""

    def __init__(self, config: GymnasiumConfig) -> None:
        """
        Raises:
            ConfigError: it cannot be made, or has no words.
        """
        self._config = config
        self._env = _make(config)
        try:
            _check_words(config, self._env)
        except ConfigError:
            self._env.close()
            raise
        self._mask: Any = None

    def reset(self, inputs: Mapping[str, Any], seed: int) -> str:
        """The rules, the task's prompt, and the first observation."""
        observation, info = self._env.reset(seed=seed % SEEDS)
        self._mask = info.get("action_mask")
        parts = (self._config.rules, str(inputs.get("prompt", "")), self._observed(observation))
        return "\n".join(part for part in parts if part)

    def actions(self) -> Sequence[str] | None:
        """The words of the actions that are possible now; None where actions are texts."""
        space = self._env.action_space
        if not hasattr(space, "n"):
            return None
        words = [self._word(self._config.actions, number) for number in range(int(space.n))]
        if self._mask is None:
            return words
        return [word for word, is_possible in zip(words, self._mask, strict=False) if is_possible]

    def step(self, action: str) -> EnvStep:
        """Do it, if it is possible."""
        observation, reward, terminated, truncated, info = self._env.step(self._action(action))
        self._mask = info.get("action_mask")
        return EnvStep(
            observation=self._observed(observation),
            reward=float(reward),
            done=bool(terminated),
            truncated=bool(truncated),
        )

    def close(self) -> None:
        """Close it."""
        self._env.close()

    def _action(self, text: str) -> Any:
        space, possible = self._env.action_space, self.actions()
        if possible is None:
            if not space.contains(text):
                raise InvalidMove(f"{text[:60]!r} is no action here")
            return text
        number = find_move(text, possible)
        if number is None:
            raise InvalidMove(f"{text[:60]!r} is no action here")
        words = [self._word(self._config.actions, each) for each in range(int(space.n))]
        return int(space.start) + words.index(possible[number])

    def _observed(self, observation: Any) -> str:
        if self._config.observe == "render":
            return plain(self._env.render())
        return self._text(self._env.observation_space, observation)

    def _text(self, space: Any, observation: Any) -> str:
        match type(space).__name__:
            case "Text":
                return str(observation)
            case "Discrete":
                return self._word(self._config.observations, int(observation) - int(space.start))
            case "Tuple":
                return ", ".join(self._text(part, value) for part, value in zip(space, observation, strict=True))
        return "\n".join(f"{name}: {self._text(part, observation[name])}" for name, part in space.items())

    @staticmethod
    def _word(words: Sequence[str], number: int) -> str:
        return words[number] if words else str(number)


def plain(drawn: Any) -> str:
    """What an environment drew, without colours: what it marked by its background is in [], by another colour in {}.

    Raises:
        EnvError: it is no text.
    """
    if not isinstance(drawn, str):
        raise EnvError(f"the environment drew a {type(drawn).__name__}, not text")
    return _CODE.sub("", _HIGHLIGHTED.sub(_marked, drawn)).strip("\n")


def _marked(found: re.Match[str]) -> str:
    is_background = any(code.startswith("4") and len(code) == 2 for code in found["style"].split(";"))
    return f"[{found['text']}]" if is_background else f"{{{found['text']}}}"


def _make(config: GymnasiumConfig) -> Any:
    need_packages(f"environment {config.id}", "gymnasium")
    import gymnasium

    options: dict[str, Any] = dict(config.options)
    if config.observe == "render":
        options["render_mode"] = "ansi"
    try:
        return gymnasium.make(config.id, disable_env_checker=True, **options)
    except Exception as error:  # whatever an environment may raise when it is made
        raise ConfigError(f"environment {config.id} cannot be made: {type(error).__name__}: {error}") from error


def _check_words(config: GymnasiumConfig, env: Any) -> None:
    action, observation = env.action_space, env.observation_space
    kind = type(action).__name__
    if kind not in ("Discrete", "Text"):
        raise ConfigError(f"environment {config.id}: its actions are {kind}; expected Discrete or Text")
    if config.actions and (kind == "Text" or len(config.actions) != int(action.n)):
        count = "no numbers" if kind == "Text" else f"{int(action.n)} of them"
        raise ConfigError(f"environment {config.id}: {len(config.actions)} words for actions, but it has {count}")
    if len(set(config.actions)) < len(config.actions):
        raise ConfigError(f"environment {config.id}: two actions have the same word")
    if config.observe == "render":
        return
    _check_observation(config, observation)


def _check_observation(config: GymnasiumConfig, space: Any) -> None:
    kind = type(space).__name__
    if kind in ("Tuple", "Dict"):
        for part in space.values() if kind == "Dict" else space:
            _check_observation(config, part)
    elif kind == "Discrete":
        if config.observations and len(config.observations) != int(space.n):
            raise ConfigError(
                f"environment {config.id}: {len(config.observations)} words for observations, but it has {int(space.n)}"
            )
    elif kind != "Text":
        raise ConfigError(
            f"environment {config.id}: its observations are {kind}, which no words stand for; write observe: render, "
            "or register an environment that puts them into words"
        )
