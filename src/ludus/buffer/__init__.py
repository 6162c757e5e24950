"""The window between explorers and trainer: durable insert, claim, commit, and who has to wait."""

from ludus.buffer.buffer import Buffer
from ludus.buffer.claim import Claim
from ludus.buffer.limits import Limits, Stock, make_limits, may_claim, rows_wanted
from ludus.buffer.samplers import SAMPLERS

__all__ = ["SAMPLERS", "Buffer", "Claim", "Limits", "Stock", "make_limits", "may_claim", "rows_wanted"]
