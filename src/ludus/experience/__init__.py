"""From raw episodes to verified experience: checks, operators, reward transforms, and a record of what was refused."""

from ludus.experience.baselines import are_greedy, mark_greedy, with_baselines
from ludus.experience.filters import Filtered, Filters, build_filters
from ludus.experience.groups import Groups, find_groups
from ludus.experience.kept_rows import KeptRows
from ludus.experience.open_groups import OpenGroups, WholeGroups
from ludus.experience.operators import OPERATORS, Operator, Verdict, make_operator, register_operator
from ludus.experience.pipeline import TRANSFORMS, Pipeline, build_pipeline, register_transform
from ludus.experience.recheck import MOST_TASKS, recheck
from ludus.experience.refusals import Refusal, Refusals
from ludus.experience.refused_log import RefusedLog
from ludus.experience.transform_phases import Stateless, Transform, TransformPhase, decisions, last_chosen
from ludus.experience.verify import Verified, verify

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
