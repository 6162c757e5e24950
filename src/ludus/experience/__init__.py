"""From raw episodes to verified experience: checks, reward transforms, and a record of what was refused."""

from ludus.experience.pipeline import TRANSFORMS, Pipeline, build_pipeline, register_transform
from ludus.experience.refusals import Refusal, Refusals
from ludus.experience.stages import Stage, Stateless, Transform, decisions, last_chosen
from ludus.experience.verify import Verified, verify

__all__ = [
    "TRANSFORMS",
    "Pipeline",
    "Refusal",
    "Refusals",
    "Stage",
    "Stateless",
    "Transform",
    "Verified",
    "build_pipeline",
    "decisions",
    "last_chosen",
    "register_transform",
    "verify",
]
