"""Which options each loss of a chess network takes in `objective:`, and the preset `chess`.

The losses are in `ludus.chess.losses`; a test keeps both equal. They train on tensors of a loader: planes, policy and
values of single positions.
"""

from __future__ import annotations

import math

from ludus.config.sections.train import AdvantageConfig, TermConfig
from ludus.config.sections.train_losses import LossOption

_HEAD = LossOption(is_free=True)
_TARGET = LossOption(words=("result", "best", "played", "orig", "root", "st"))

CHESS_LOSS_OPTIONS: dict[str, dict[str, LossOption]] = {
    "chess_policy": {
        "head": _HEAD,
        "kind": LossOption(words=("cross_entropy", "kl")),
        "illegal": LossOption(words=("mask", "train_to_zero")),
        "temperature": LossOption(),
        "strength": LossOption(above=-math.inf, may_be_null=True),
        "alpha": LossOption(),
        "value_head": _HEAD,
        "value_target": _TARGET,
    },
    "chess_value": {"head": _HEAD, "target": _TARGET},
    "chess_value_error": {"head": _HEAD, "target": _TARGET},
    "chess_value_categorical": {"head": _HEAD, "target": _TARGET},
    "chess_moves_left": {"head": _HEAD, "target": _TARGET, "scale": LossOption(), "delta": LossOption()},
}

CHESS_ADVANTAGE = AdvantageConfig(kind="monte_carlo", normalise=False)
CHESS_OBJECTIVE = (
    TermConfig(loss="chess_policy", options={"head": "vanilla"}),
    TermConfig(loss="chess_value", options={"head": "winner", "target": "result"}),
    TermConfig(loss="chess_moves_left", weight=0.5, options={"head": "main"}),
)
