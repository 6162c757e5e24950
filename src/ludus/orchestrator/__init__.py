"""The parts of a run between tasks and weights: explorers, the rollout sink, the trainer, evaluation, milestones."""

from __future__ import annotations

from ludus.orchestrator.check_parts import Playables, check_parts
from ludus.orchestrator.context import RunContext, open_context
from ludus.orchestrator.evaluation import Evaluation, Evaluator, ResultLog
from ludus.orchestrator.explorers import Explorers
from ludus.orchestrator.milestones import MeasuringMilestones, Milestones, Reporter
from ludus.orchestrator.progress import Learner, Progress, UpdateReport
from ludus.orchestrator.rollout_sink import RolloutSink
from ludus.orchestrator.run_store import Publisher, RunState, RunStore
from ludus.orchestrator.workers import Workers

__all__ = [
    "Evaluation",
    "Evaluator",
    "Explorers",
    "Learner",
    "MeasuringMilestones",
    "Milestones",
    "Playables",
    "Progress",
    "Publisher",
    "Reporter",
    "ResultLog",
    "RolloutSink",
    "RunContext",
    "RunState",
    "RunStore",
    "UpdateReport",
    "Workers",
    "check_parts",
    "open_context",
]
