"""Which key or word did the user mean? Nearest by spelling, first beside the mistake, then anywhere in the schema."""

from __future__ import annotations

from collections.abc import Iterable

from ludus.config.base import Model
from ludus.config.loading.slots import all_paths
from ludus.config.problems import CLOSE, Path, dotted, likeness

MAX_KEY = 40

# What other libraries call our keys. A test checks that each of these exists.
KNOWN_AS: dict[str, str] = {
    "lr": "train.optimizer.learning_rate",
    "batch_size": "train.minibatch",
    "minibatch_size": "train.minibatch",
    "n_envs": "explore.games_in_flight",
    "num_envs": "explore.games_in_flight",
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
