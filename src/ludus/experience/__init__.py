"""From raw episodes to verified experience: checks, operators, reward transforms, and a record of what was refused."""

from ludus.experience.filters import Filtered, Filters, build_filters
from ludus.experience.groups import (
    Groups,
    OpenGroups,
    WholeGroups,
    are_greedy,
    find_groups,
    mark_greedy,
    with_baselines,
)
from ludus.experience.kept_rows import KeptRows
from ludus.experience.operators import OPERATORS, Operator, Verdict, make_operator, register_operator
from ludus.experience.pipeline import Pipeline, build_pipeline
from ludus.experience.refusals import Refusal, Refusals, RefusedLog
from ludus.experience.transforms import (
    TRANSFORMS,
    Stateless,
    Transform,
    TransformPhase,
    decisions,
    last_chosen,
    register_transform,
)
from ludus.experience.verify import MOST_TASKS, Verified, recheck, verify

__all__ = [
    "MOST_TASKS",
    "OPERATORS",
    "TRANSFORMS",
    "Filtered",
    "Filters",
    "Groups",
    "KeptRows",
    "OpenGroups",
    "Operator",
    "Pipeline",
    "Refusal",
    "Refusals",
    "RefusedLog",
    "Stateless",
    "Transform",
    "TransformPhase",
    "Verdict",
    "Verified",
    "WholeGroups",
    "are_greedy",
    "build_filters",
    "build_pipeline",
    "decisions",
    "find_groups",
    "last_chosen",
    "make_operator",
    "mark_greedy",
    "recheck",
    "register_operator",
    "register_transform",
    "verify",
    "with_baselines",
]
