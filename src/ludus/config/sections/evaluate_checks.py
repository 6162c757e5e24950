"""What mode evaluate needs, and what is for it alone."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.config.problems import Contradiction
from ludus.config.run import RunConfig


def evaluate_contradictions(config: RunConfig) -> Iterator[Contradiction]:
    """Everything about measuring another run that cannot hold together."""
    evaluate, start = config.evaluate, config.policy.start
    if config.mode != "evaluate":
        if evaluate.versions != "latest":
            text = f"has no effect: mode is {config.mode}; write mode: evaluate, or leave it out"
            yield Contradiction(path=("evaluate", "versions"), text=text)
        return
    if start is None:
        text = "mode is evaluate, so there must be a run to measure; write its directory, such as runs/x"
        yield Contradiction(path=("policy", "start"), text=text)
    if evaluate.versions == "all" and "@" in (start or ""):
        text = f"policy.start names one version ({start}); write the run alone there, or leave this out"
        yield Contradiction(path=("evaluate", "versions"), text=text)
    if config.tasks and not evaluate.tasks:
        text = "mode is evaluate, so there must be something to measure on; write held-out tasksets"
        yield Contradiction(path=("evaluate", "tasks"), text=text)
    if config.games and not evaluate.final_games:
        text = "mode is evaluate, and 0 games measure nothing; write at least 1"
        yield Contradiction(path=("evaluate", "final_games"), text=text)
