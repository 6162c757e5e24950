"""What attempts at held-out tasks come to: mean@k, best@k and pass@k for each set.

pass@k is the unbiased estimate of the chance that at least one of k attempts succeeds: with c successes among n
attempts at a task, `1 - C(n - c, k) / C(n, k)`, averaged over tasks. An attempt that failed to run counts as no success
and, in the mean, as nothing earned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import comb

from ludus.records import Episode


def score_attempts(episodes: Iterable[Episode], *, samples: int, success: float) -> dict[str, float]:
    """Metrics by name, such as `evaluate/held_out/pass@4`, from the episodes of one evaluation."""
    metrics: dict[str, float] = {}
    for name, tasks in _by_set(episodes).items():
        rewards = list(tasks.values())
        at = f"@{samples}" if samples > 1 else ""
        metrics[f"evaluate/{name}/mean{at}"] = _mean([_mean(each) for each in rewards])
        metrics[f"evaluate/{name}/success"] = _mean([_mean([value >= success for value in each]) for each in rewards])
        if samples > 1:
            metrics[f"evaluate/{name}/best{at}"] = _mean([max(each) for each in rewards])
            for k in _powers_of_two(samples):
                chances = [pass_at(k, sum(value >= success for value in each), len(each)) for each in rewards]
                metrics[f"evaluate/{name}/pass@{k}"] = _mean(chances)
    return metrics


def pass_at(k: int, successes: int, attempts: int) -> float:
    """The unbiased estimate for one task; with fewer than k attempts, whether one succeeded."""
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


def _powers_of_two(most: int) -> list[int]:
    return [2**power for power in range(most.bit_length()) if 2**power <= most]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
