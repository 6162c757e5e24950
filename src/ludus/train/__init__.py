"""How a policy learns: losses, advantages, objectives, and the learners that put them to work.

What needs JAX or PyTorch is loaded when it is first asked for, so importing this room stays light.
"""

from typing import TYPE_CHECKING, Any

from ludus.train.advantages import compute, register_advantage
from ludus.train.aggregation import AGGREGATIONS, Aggregation, build_aggregation, constant_norm
from ludus.train.group_advantages import group_advantages
from ludus.train.losses import LOSSES, Elements, Loss, LossInputs, register_loss
from ludus.train.objective import Objective, build_objective
from ludus.train.schedules import register_schedule
from ludus.train.time_major import gae_time_major

if TYPE_CHECKING:
    from ludus.train.device_advantages import gae_on_device
    from ludus.train.jax_learner import JaxLearner
    from ludus.train.learner_state import LearnerState
    from ludus.train.parallel import ParallelLearner
    from ludus.train.torch_learner import TorchLearner, TorchState

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
    "ParallelLearner",
    "TorchLearner",
    "TorchState",
    "build_aggregation",
    "build_objective",
    "compute",
    "constant_norm",
    "gae_on_device",
    "gae_time_major",
    "group_advantages",
    "register_advantage",
    "register_loss",
    "register_schedule",
]

_LOADED_LATER = {
    "JaxLearner": "ludus.train.jax_learner",
    "LearnerState": "ludus.train.learner_state",
    "ParallelLearner": "ludus.train.parallel",
    "TorchLearner": "ludus.train.torch_learner",
    "TorchState": "ludus.train.torch_learner",
    "gae_on_device": "ludus.train.device_advantages",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LOADED_LATER[name]), name)
