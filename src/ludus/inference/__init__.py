"""Engines: what writes a language model's replies.

`protocol` says what every engine is; import the engines from their modules (some of them load PyTorch).
"""

from ludus.inference.conversation import ChatTemplate, Conversation
from ludus.inference.policy_sampler import PolicySampler
from ludus.inference.protocol import (
    Completion,
    Engine,
    EngineCounters,
    Finish,
    Request,
    Sampling,
    check_request,
    register_engine,
)

__all__ = [
    "ChatTemplate",
    "Completion",
    "Conversation",
    "Engine",
    "EngineCounters",
    "Finish",
    "PolicySampler",
    "Request",
    "Sampling",
    "check_request",
    "register_engine",
]
