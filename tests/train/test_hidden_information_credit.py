"""Advantages in a game with hidden cards: a seat's own chain is right on average, the other side's estimate is not."""

from collections import defaultdict
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from ludus.config import AdvantageConfig
from ludus.games.tabulated import Tabulated
from ludus.games.tabulating import tabulate
from ludus.train.device_advantages import gae_on_device

PLIES = 3


class Path(NamedTuple):
    """One whole game: decisions as (node, action), how probable it is under uniform play, and what it pays."""

    decisions: tuple[tuple[int, int], ...]
    probability: float
    returns: np.ndarray


def all_paths(tree: Tabulated) -> list[Path]:
    found, stack = [], [(node, (), float(tree.chance[node])) for node in range(tree.siblings[0])]
    while stack:
        node, decisions, probability = stack.pop()
        if tree.is_end[node]:
            found.append(Path(decisions, probability, tree.rewards[node]))
            continue
        legal = np.flatnonzero(tree.legal[tree.view[node]])
        for action in legal.tolist():
            first = int(tree.first[node, action])
            for after in range(first, first + int(tree.siblings[first])):
                share = probability / len(legal) * float(tree.chance[after])
                stack.append((after, (*decisions, (node, action)), share))
    return found


def mean_by(keys: list[tuple[int, ...]], values: list[float], weights: list[float]) -> dict[tuple[int, ...], float]:
    sums: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for key, value, weight in zip(keys, values, weights, strict=True):
        sums[key][0] += weight * value
        sums[key][1] += weight
    return {key: total / weight for key, (total, weight) in sums.items()}


def worst_error(alternate: bool) -> float:
    """How far the mean advantage of an action is from what the action is really worth, anywhere in Kuhn poker."""
    tree = tabulate("kuhn_poker")
    paths = all_paths(tree)
    assert sum(path.probability for path in paths) == pytest.approx(1)
    steps = [(path, t, node, action) for path in paths for t, (node, action) in enumerate(path.decisions)]
    gets = [float(path.returns[tree.player[node]]) for path, _, node, _ in steps]
    weights = [path.probability for path, *_ in steps]
    value = mean_by([(int(tree.view[node]),) for _, _, node, _ in steps], gets, weights)
    worth = mean_by([(int(tree.view[node]), action) for _, _, node, action in steps], gets, weights)
    columns = {path.decisions: n for n, path in enumerate(paths)}
    rewards, values = np.zeros((PLIES, len(paths), 2), np.float32), np.zeros((PLIES, len(paths)), np.float32)
    seats, done = np.zeros((PLIES, len(paths)), np.int32), np.ones((PLIES, len(paths)), bool)
    for path, t, node, _ in steps:
        n = columns[path.decisions]
        seats[t, n], values[t, n] = tree.player[node], value[(int(tree.view[node]),)]
        done[t, n] = t == len(path.decisions) - 1
        rewards[t, n] = path.returns if done[t, n] else 0.0
    advantage, _ = gae_on_device(
        rewards=jnp.array(rewards),
        value=jnp.array(values),
        seat=jnp.array(seats),
        done=jnp.array(done),
        last_value=jnp.zeros(len(paths)),
        last_seat=jnp.zeros(len(paths), jnp.int32),
        config=AdvantageConfig(lam=0.5, gamma=1.0),
        alternate=alternate,
    )
    credited = [float(advantage[t, columns[path.decisions]]) for path, t, *_ in steps]
    mean = mean_by([(int(tree.view[node]), action) for _, _, node, action in steps], credited, weights)
    return max(abs(mean[key] - (worth[key] - value[key[:1]])) for key in worth)


def test_a_seats_own_chain_gives_each_action_its_worth_on_average() -> None:
    assert worst_error(alternate=False) < 1e-5


def test_the_other_sides_estimate_is_biased_where_cards_are_hidden() -> None:
    assert worst_error(alternate=True) > 0.1
