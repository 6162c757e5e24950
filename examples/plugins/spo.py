"""A loss and the preset that uses it: SPO (Simple Policy Optimization, Xie et al. 2024).

PPO's clip leaves the gradient of a clipped element 0. SPO keeps it, with a penalty whose optimum is the edge of the
trust region: `-(A r - |A| / (2 epsilon) (r - 1)^2)`.

    ludus run examples/plugins/spo.yaml --plugin examples/plugins/spo.py
"""

from array_api_compat import array_namespace

from ludus import Preset, register_loss, register_preset
from ludus.config import AdvantageConfig, TermConfig
from ludus.train import Elements, LossInputs


def spo(inputs: LossInputs, /, *, epsilon: float = 0.2) -> Elements:
    """Never names a framework: the same function serves JAX (networks) and PyTorch (language models)."""
    xp = array_namespace(inputs.logp)
    ratio = xp.exp(xp.clip(inputs.logp - inputs.old_logp, -20.0, 20.0))
    penalty = xp.abs(inputs.advantage) / (2.0 * epsilon) * (ratio - 1.0) ** 2
    return Elements(loss=penalty - inputs.advantage * ratio, stats={"spo_penalty": penalty})


register_loss("spo", spo)
register_preset(
    "spo",
    Preset(
        advantage=AdvantageConfig(kind="gae"),
        objective=(
            TermConfig(loss="spo", options={"epsilon": 0.2}),
            TermConfig(loss="value"),
            TermConfig(loss="entropy", weight=0.01),
        ),
        epochs=4,
    ),
)
