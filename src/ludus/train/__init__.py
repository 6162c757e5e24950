"""How a policy learns: losses, advantages, objectives, and the learners that put them to work.

What needs JAX or PyTorch is loaded when it is first asked for, so importing this room stays light.
"""

from typing import TYPE_CHECKING

from ludus.lazy import import_later
from ludus.train.advantages import compute, register_advantage
from ludus.train.aggregation import AGGREGATIONS, Aggregation, build_aggregation, constant_norm
from ludus.train.group_advantages import group_advantages
from ludus.train.loss_inputs import Elements, Loss, LossInputs
from ludus.train.losses import LOSSES, register_loss
from ludus.train.objective import Objective, build_objective
from ludus.train.schedules import register_schedule

if TYPE_CHECKING:
    from ludus.train.device_advantages import gae_on_device
    from ludus.train.jax_learner import JaxLearner
    from ludus.train.learner_state import LearnerState
    from ludus.train.parallel import ParallelLearner
    from ludus.train.torch_learner import TorchLearner
    from ludus.train.torch_state import TorchState

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
    "group_advantages",
    "register_advantage",
    "register_loss",
    "register_schedule",
]

__getattr__ = import_later(__name__)
