"""Running means over the newest training episodes, by game and seat: what the metrics show of play."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from ludus.records import Episode

WINDOW = 512


class RolloutMetrics:
    """Rewards, results and lengths of the last `WINDOW` episodes of each game."""

    def __init__(self) -> None:
        self._episodes: dict[str, deque[Episode]] = {}
        self.failed = 0

    def add(self, episodes: Sequence[Episode]) -> None:
        """Take finished training episodes."""
        for episode in episodes:
            if episode.error:
                self.failed += 1
            else:
                self._episodes.setdefault(episode.task.game, deque(maxlen=WINDOW)).append(episode)

    def metrics(self) -> dict[str, float]:
        """`explore/<game>/...` for each game; a single game also without its name."""
        values: dict[str, float] = {"explore/failed_episodes": float(self.failed)}
        for game, episodes in self._episodes.items():
            values.update({f"explore/{game}/{name}": value for name, value in _means(list(episodes)).items()})
        if len(self._episodes) == 1:
            (episodes,) = self._episodes.values()
            values.update({f"explore/{name}": value for name, value in _means(list(episodes)).items()})
        return values


def _replies(episodes: Sequence[Episode]) -> dict[str, float]:
    """In games of words, of what the learning seats said: how much had the form that was asked for, which share of the
    moves the rules did not allow, and how long replies were."""
    spoken = [(episode, seat) for episode in episodes for seat in _learning(episode) if episode.replies]
    share = invalid_share(spoken)
    if share is None:
        return {}
    if episodes[0].task.is_attempt:
        return {"invalid_moves": share}
    said = [
        (bool(move), len(reply))
        for episode, seat in spoken
        for who, move, reply in zip(episode.move_seats, episode.move_texts, episode.replies, strict=True)
        if who == seat
    ]
    formed, characters = np.array(said, np.float64).mean(axis=0)
    return {"invalid_moves": share, "format_success": float(formed), "reply_chars": float(characters)}


def _learning(episode: Episode) -> list[int]:
    return [seat for seat, who in enumerate(episode.task.seats) if who.learns]


def invalid_share(seats: Iterable[tuple[Episode, int]]) -> float | None:
    """Of the moves that these seats tried, the share that was not allowed; None when they tried none."""
    tried = [episode.move_actions[episode.move_seats == seat] for episode, seat in seats]
    accepted = np.concatenate([np.zeros(0, np.int32), *tried])
    return float(np.mean(accepted == 0)) if len(accepted) else None


def _means(episodes: Sequence[Episode]) -> dict[str, float]:
    returns = np.array([episode.returns for episode in episodes], np.float64)
    best = returns.max(axis=1, keepdims=True)
    drawn = (returns == best).all(axis=1) & (returns.shape[1] > 1)
    values = {
        **_replies(episodes),
        "length": float(np.mean([episode.length for episode in episodes])),
        "draws": float(drawn.mean()),
    }
    for seat in range(returns.shape[1]):
        values[f"seat_{seat}/reward"] = float(returns[:, seat].mean())
        values[f"seat_{seat}/wins"] = float(((returns[:, seat] == best[:, 0]) & ~drawn).mean())
    return values
