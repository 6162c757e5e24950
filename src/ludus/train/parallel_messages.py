"""What trainer 0 and its helpers say to each other when they share the minibatches of a network.

A batch travels beside `ShareBatch` as safetensors, weights and answers beside the others as float32.
"""

from __future__ import annotations

import msgspec

from ludus.runtime import Stop


class ShareBatch(msgspec.Struct, tag="share_batch", kw_only=True):
    """The batch in the blob is what the next minibatches are dealt from."""

    seed: int
    progress: float
    rows: int
    """Rows to pad it to."""


class ShareMinibatch(msgspec.Struct, tag="share_minibatch", kw_only=True):
    """Compute your share of this minibatch with the weights in the blob."""

    epoch: int
    number: int


class Ready(msgspec.Struct, tag="ready", kw_only=True):
    """A helper has begun to listen."""


class Shared(msgspec.Struct, tag="shared", kw_only=True):
    """A share is computed: gradient and metrics are in the blob."""


ToHelper = ShareBatch | ShareMinibatch | Stop
FromHelper = Ready | Shared
