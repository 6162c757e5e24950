"""How tasks are attempted: one file per kind of workflow, and what they have in common.

A user's own workflow is an async function of a task and a `RolloutModel`; `register_workflow` makes it known
(docs/recipes/workflow.md).
"""

from ludus.explore.workflows.outcome import Outcome
from ludus.explore.workflows.protocol import Workflow
from ludus.explore.workflows.registry import register_workflow
from ludus.explore.workflows.rollout_model import Chat, OutOfRoom, RolloutModel

__all__ = ["Chat", "OutOfRoom", "Outcome", "RolloutModel", "Workflow", "register_workflow"]
