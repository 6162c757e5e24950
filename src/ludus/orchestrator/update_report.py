"""What an update did, from its batch and the trainer's answer."""

from __future__ import annotations

import numpy as np

from ludus.config import LeagueConfig
from ludus.orchestrator.progress import UpdateReport
from ludus.sources.protocol import Batch
from ludus.train.messages import Trained


def meets_others(league: LeagueConfig) -> bool:
    """Whether the learner plays against anybody but itself."""
    return any(choice.kind != "mirror" for choice in league.opponents) or not league.opponents


def report_of(batch: Batch, trained: Trained, *, meets_others: bool) -> UpdateReport:
    """The report of a trained batch."""
    metrics = {
        **{f"train/{name}": value for name, value in trained.metrics.items()},
        "train/staleness": float(batch.staleness.mean()) if len(batch.staleness) else 0.0,
        **batch.metrics,
        "train/seconds": trained.seconds,
    }
    if batch.is_pulled:
        return UpdateReport(batch=batch, steps=trained.steps, episodes=trained.episodes, metrics=metrics)
    rows = batch.experiences
    rewards = np.asarray(rows.sequences["final_reward"], np.float64)
    return UpdateReport(
        batch=batch,
        steps=int(rows.steps["mask"].sum()),
        episodes=len(set(rows.sequences["episode"].tolist())),
        rated_games=len(rewards) if meets_others else 0,
        score=float((0.5 + 0.5 * np.sign(rewards)).mean()) if len(rewards) else 0.0,
        mean_return=float(rewards.mean()) if len(rewards) else 0.0,
        metrics=metrics,
    )
