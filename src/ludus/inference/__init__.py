"""Engines: what writes a language model's replies.

`protocol` says what every engine is; import the engines from their modules (some of them load PyTorch).
"""

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
    "Completion",
    "Engine",
    "EngineCounters",
    "Finish",
    "Request",
    "Sampling",
    "check_request",
    "register_engine",
]
