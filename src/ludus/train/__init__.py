"""How a policy learns: losses, advantages, objectives, and the learners that put them to work.

What needs JAX is loaded when it is first asked for, so importing this room stays light.
"""

from typing import TYPE_CHECKING, Any

from ludus.train.advantages import compute
from ludus.train.aggregation import AGGREGATIONS, Aggregation, constant_norm
from ludus.train.losses import LOSSES, Elements, Loss, LossInputs
from ludus.train.objective import Objective, build_objective
from ludus.train.time_major import gae_time_major

if TYPE_CHECKING:
    from ludus.train.device_advantages import gae_on_device
    from ludus.train.jax_learner import JaxLearner
    from ludus.train.learner_state import LearnerState

__all__ = [
    "AGGREGATIONS",
    "LOSSES",
    "Aggregation",
    "Elements",
    "JaxLearner",
    "LearnerState",
    "Loss",
    "LossInputs",
    "Objective",
    "build_objective",
    "compute",
    "constant_norm",
    "gae_on_device",
    "gae_time_major",
]

_NEED_JAX = {
    "JaxLearner": "ludus.train.jax_learner",
    "LearnerState": "ludus.train.learner_state",
    "gae_on_device": "ludus.train.device_advantages",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_JAX:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_NEED_JAX[name]), name)
