"""What cannot hold in `explore.endpoints` and `explore.judge`, or would have no effect there.

The same rules as in `contradictions.py`: each line names the key and says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ludus.config.problems import Contradiction, Path, nearest_word
from ludus.config.run import RunConfig
from ludus.config.sections.endpoints import EndpointConfig
from ludus.config.sections.league import FIXED_PLAYER

_TAKEN = re.compile(r"^((random|first|mcts|minimax)(-\d+)?|past|you|dictated)$")
"""Players that ludus has, and names that mean somebody in its metrics and commands."""
_NOT_OPTIONS = {
    "model": "write it beside options",
    "max_tokens": "write it beside options",
    "temperature": "write it beside options",
    "messages": "the game writes them",
    "stream": "replies are read whole",
    "n": "one reply is read",
    "api_key": "a key comes from the environment variable that key_variable names",
    "authorization": "a key comes from the environment variable that key_variable names",
}


def endpoint_contradictions(config: RunConfig) -> Iterator[Contradiction]:
    """Everything about endpoints that cannot hold."""
    explore = config.explore
    if config.policy.model is None:
        for key in ("endpoints", "judge"):
            if getattr(explore, key):
                yield _at(("explore", key), "is for language models; give policy.model, or leave it out")
        return
    for name, endpoint in explore.endpoints.items():
        path: Path = ("explore", "endpoints", name)
        yield from list(_name(config, path, name)) or _use(config, path, name, endpoint)
        yield from _options(path, endpoint)
    yield from _judge(config)
    for i, player in enumerate(config.warm_start.players if config.warm_start else ()):
        if player in explore.endpoints:
            text = f"{player} is an endpoint, and what it says is not trained on; write players such as random"
            yield _at(("warm_start", "players", i), text)


def _at(path: Path, text: str) -> Contradiction:
    return Contradiction(path=path, text=text)


def _name(config: RunConfig, path: Path, name: str) -> Iterator[Contradiction]:
    if not FIXED_PLAYER.match(name) or len(name) > 32:
        yield _at(path, "is no player's name; write small letters, digits and _, at most 32, such as gpt")
    elif _TAKEN.match(name):
        yield _at(path, f"{name} means somebody else already; write another name, such as gpt")
    elif name == config.policy.name:
        yield _at(path, f"{name} is the policy that learns (policy.name); write another name, such as gpt")


def _use(config: RunConfig, path: Path, name: str, endpoint: EndpointConfig) -> Iterator[Contradiction]:
    players = {player for opponent in config.league.opponents for player in opponent.players}
    plays = name in players | set(config.evaluate.against)
    judge = config.explore.judge
    if not plays and (judge is None or judge.endpoint != name):
        where = "league.opponents, evaluate.against or explore.judge.endpoint"
        yield _at(path, f"has no effect: nobody asks it; name it in {where}, or leave it out")
    elif not plays:
        for key in ("prompt", "action", "temperature"):
            if getattr(endpoint, key) is not None:
                yield _at((*path, key), f"has no effect: {name} only judges; leave it out")
    if endpoint.max_cost is not None and not endpoint.prompt_price + endpoint.completion_price:
        text = "has no effect: nothing is charged; write prompt_price and completion_price, per million tokens"
        yield _at((*path, "max_cost"), text)


def _options(path: Path, endpoint: EndpointConfig) -> Iterator[Contradiction]:
    for key in endpoint.options:
        if why := _NOT_OPTIONS.get(key.lower()):
            yield _at((*path, "options", key), f"is no option: {why}")


def _judge(config: RunConfig) -> Iterator[Contradiction]:
    judge, endpoints = config.explore.judge, config.explore.endpoints
    if judge is None:
        return
    if judge.endpoint not in endpoints:
        near = nearest_word(judge.endpoint, endpoints)
        hint = f"did you mean {near}?" if near else "write it there, with its model and url"
        yield _at(("explore", "judge", "endpoint"), f"explore.endpoints has no {judge.endpoint}; {hint}")
    if judge.lowest >= judge.highest:
        text = f"{judge.lowest:g} is not below explore.judge.highest ({judge.highest:g})"
        yield _at(("explore", "judge", "lowest"), f"{text}; write less there")
