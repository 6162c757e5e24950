"""The parts of a run between tasks and weights: explorers, the rollout sink, the trainer, evaluation, milestones."""

from __future__ import annotations

from ludus.orchestrator.check_parts import check_parts
from ludus.orchestrator.context import RunContext, open_context
from ludus.orchestrator.evaluation import Evaluation
from ludus.orchestrator.evaluator import Evaluator
from ludus.orchestrator.explorers import Explorers
from ludus.orchestrator.learner import Learner
from ludus.orchestrator.milestones import Due, MeasuringMilestones, Milestones
from ludus.orchestrator.progress import Progress, UpdateReport, crosses
from ludus.orchestrator.publisher import Publisher
from ludus.orchestrator.reporter import Reporter
from ludus.orchestrator.rollout_sink import RolloutSink
from ludus.orchestrator.run_state import RunState
from ludus.orchestrator.run_store import RunStore
from ludus.orchestrator.task_sets import Playables
from ludus.orchestrator.workers import Workers

__all__ = [
    "Due",
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
    "RolloutSink",
    "RunContext",
    "RunState",
    "RunStore",
    "UpdateReport",
    "Workers",
    "check_parts",
    "crosses",
    "open_context",
]
