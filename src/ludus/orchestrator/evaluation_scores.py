"""What the games and attempts of an evaluation came to, as metrics. Nothing here changes the league."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import comb, isfinite, sqrt
from typing import NamedTuple

from ludus.games.protocol import GameSpec
from ludus.orchestrator.rollout_sink import invalid_share
from ludus.records import Episode, PolicyRef

Z95 = 1.959963984540054


class Outcome(NamedTuple):
    """One game from the measured policy's side."""

    seat: int
    score: float
    """1 for the best return, 0.5 when shared with everybody, 0 otherwise."""
    value: float
    """The return."""


def is_sound(episode: Episode) -> bool:
    """Whether a game ended and gave every seat a finite return; one that did not costs itself only."""
    is_whole = len(episode.returns) == len(episode.task.seats)
    return not episode.error and is_whole and all(map(isfinite, episode.returns))


def score_games(
    episodes: Sequence[Episode],
    learner: PolicyRef,
    specs: Mapping[str, GameSpec],
    held_out: Mapping[str, GameSpec] | None = None,
) -> dict[str, float]:
    """By opponent, and with several games also by game and opponent: return, score, wins, draws and losses, by seat.

    Held-out games are told by game and opponent alone; those that the learner searched in by its nodes, too, as in
    `chess:openings+32_nodes`.
    """
    others = held_out or {}
    found: dict[str, list[Outcome]] = {}
    degrees: dict[str, bool] = {}
    for episode in filter(is_sound, episodes):
        label, outcome = _outcome(episode, learner)
        game = episode.task.game
        of_game = f"{game}{_search(episode, learner)}/{label or 'itself'}"
        prefixes = (of_game,) if game in others else (label, of_game) if len(specs) > 1 else (label,)
        for prefix in prefixes:
            found.setdefault(prefix, []).append(outcome)
            degrees[prefix] = degrees.get(prefix, True) and {**specs, **others}[game].pays_by_degree
    metrics: dict[str, float] = {}
    for prefix, outcomes in found.items():
        path = f"evaluate/{prefix}" if prefix else "evaluate"
        metrics |= _returns(path, outcomes)
        if prefix and not prefix.endswith("/itself"):
            metrics |= _against(path, outcomes)
            metrics |= {f"{path}/by_return": 1.0} if degrees[prefix] else {}
    spoken = [episode for episode in episodes if episode.replies and not episode.error]
    seats_of = ([seat.policy for seat in episode.task.seats] for episode in spoken)
    invalid = invalid_share(zip(spoken, (seats.index(learner) for seats in seats_of), strict=True))
    return metrics | ({} if invalid is None else {"evaluate/invalid_moves": invalid})


def _outcome(episode: Episode, learner: PolicyRef) -> tuple[str, Outcome]:
    """Who the opponent was (nobody: an empty name), and what the game says of the learner."""
    seats = [seat.policy for seat in episode.task.seats]
    if set(seats) == {learner}:
        return "", Outcome(seat=0, score=0.0, value=sum(episode.returns) / len(seats))
    mine = seats.index(learner)
    opponent = next(ref for ref in seats if ref != learner)
    label = "past" if opponent.name == learner.name else str(opponent.name)
    return label, Outcome(seat=mine, score=score(episode.returns, mine), value=episode.returns[mine])


def _search(episode: Episode, learner: PolicyRef) -> str:
    nodes = next(seat.nodes for seat in episode.task.seats if seat.policy == learner)
    return f"+{nodes}_nodes" if nodes > 1 else ""


def _returns(path: str, outcomes: Sequence[Outcome]) -> dict[str, float]:
    values = [each.value for each in outcomes]
    return {f"{path}/return": _mean(values), f"{path}/return_ci95": margin(values)}


def _against(path: str, outcomes: Sequence[Outcome]) -> dict[str, float]:
    scores = [each.score for each in outcomes]
    named = {"wins": 1.0, "draws": 0.5, "losses": 0.0}
    metrics = {f"{path}/score": _mean(scores), f"{path}/games": float(len(scores))}
    metrics |= {f"{path}/{name}": scores.count(value) / len(scores) for name, value in named.items()}
    for seat in sorted({each.seat for each in outcomes}):
        here = [each for each in outcomes if each.seat == seat]
        metrics[f"{path}/score_seat_{seat}"] = _mean([each.score for each in here])
        metrics[f"{path}/return_seat_{seat}"] = _mean([each.value for each in here])
    return metrics


def score(returns: Sequence[float], seat: int) -> float:
    """1 for the best return, 0.5 when shared with everybody, 0 otherwise."""
    best = max(returns)
    if returns[seat] < best:
        return 0.0
    return 0.5 if all(value == best for value in returns) else 1.0


def margin(values: Sequence[float]) -> float:
    """Half of the 95 % interval of a mean, from the spread of the values; 0 where a single one has none."""
    mean = _mean(values)
    return Z95 * sqrt(sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1) / len(values))


def score_attempts(episodes: Iterable[Episode], *, samples: int, success: float) -> dict[str, float]:
    """Metrics by name, such as `evaluate/held_out/pass@4`: mean@k, best@k and pass@k of each held-out set.

    An attempt that failed to run counts as no success and, in the mean, as nothing earned. Where tasks are attempted
    both ways, greedy attempts have the plain names and sampled ones are under `sampled`.
    """
    by_way: dict[bool, list[Episode]] = {True: [], False: []}
    for episode in episodes:
        by_way[episode.task.seats[0].greedy].append(episode)
    metrics: dict[str, float] = {}
    for is_greedy, some in by_way.items():
        below = "sampled/" if by_way[True] and not is_greedy else ""
        for name, tasks in _by_set(some).items():
            metrics[f"evaluate/{name}/tasks"] = float(len(tasks))
            metrics |= _attempts(f"evaluate/{name}/{below}", list(tasks.values()), samples, success)
    return metrics


def _attempts(path: str, rewards: Sequence[Sequence[float]], samples: int, success: float) -> dict[str, float]:
    """Of one set; `rewards` are by task."""
    at = f"@{samples}" if samples > 1 else ""
    metrics = {
        f"{path}mean{at}": _mean([_mean(each) for each in rewards]),
        f"{path}success": _mean([_mean([value >= success for value in each]) for each in rewards]),
    }
    if samples > 1:
        metrics[f"{path}best{at}"] = _mean([max(each) for each in rewards])
        for k in (2**power for power in range(samples.bit_length())):
            chances = [pass_at(k, sum(value >= success for value in each), len(each)) for each in rewards]
            metrics[f"{path}pass@{k}"] = _mean(chances)
    return metrics


def pass_at(k: int, successes: int, attempts: int) -> float:
    """The unbiased estimate of the chance that one of k attempts at a task succeeds, `1 - C(n - c, k) / C(n, k)`.

    With fewer than k attempts: whether one succeeded.
    """
    if attempts < k:
        return float(successes > 0)
    return 1.0 - comb(attempts - successes, k) / comb(attempts, k)


def _by_set(episodes: Iterable[Episode]) -> Mapping[str, dict[str, list[float]]]:
    """Rewards by set and task, in the order of the tasks."""
    found: dict[str, dict[str, list[float]]] = {}
    for episode in sorted(episodes, key=lambda each: each.task.id):
        name = episode.task.game.partition(":")[2]
        earned = 0.0 if episode.error else float(episode.returns[0])
        found.setdefault(name, {}).setdefault(episode.task.group, []).append(earned)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
