"""Which forward pass computes a language model."""

from __future__ import annotations

from typing import Literal

from transformers import PreTrainedModel

from ludus.config import LoraConfig
from ludus.errors import ConfigError
from ludus.lm.architectures import NotCovered, read_architecture
from ludus.train.torch_decoder import DecoderForward
from ludus.train.torch_forward import Forward
from ludus.train.torch_packed import PackedForward

Kind = Literal["auto", "decoder", "packed"]


def build_forward(
    model: PreTrainedModel,
    *,
    context: int,
    lora: LoraConfig | None,
    checkpointing: bool = False,
    kind: Kind = "auto",
) -> Forward:
    """A forward pass for sequences of so many tokens; `auto` is the fastest that computes the model exactly.

    Raises:
        ConfigError: the decoder is asked for, and does not compute this model.
    """
    if kind == "packed" or (kind == "auto" and model.device.type != "cpu"):
        return PackedForward(model, lora=lora, checkpointing=checkpointing)
    try:
        architecture = read_architecture(model, context=context)
    except NotCovered as reason:
        if kind == "decoder":
            text = f"the decoder does not compute this model ({reason}); write packed, or auto"
            raise ConfigError(f"train.forward: {text}") from reason
        return PackedForward(model, lora=lora, checkpointing=checkpointing)
    return DecoderForward(model, architecture, lora=lora, checkpointing=checkpointing)
