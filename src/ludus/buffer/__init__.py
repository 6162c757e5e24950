"""What batches are made of: the window of on-policy experience, expert rows, preference pairs, imported rows.

Durable insert, claim, commit, and who has to wait.
"""

from ludus.buffer.buffer import Buffer, Claim
from ludus.buffer.demonstrations import (
    BadDemonstration,
    TokenRow,
    as_expert_rows,
    as_rows,
    encode_messages,
    read_messages,
    read_pair,
)
from ludus.buffer.epoch_store import EpochStore
from ludus.buffer.gathered import GatheredRows, GatheredWriter, read_facts
from ludus.buffer.import_store import ImportStore, put_into_inbox, waiting_in_inbox
from ludus.buffer.limits import Limits, Stock, make_limits, may_claim, rows_wanted
from ludus.buffer.samplers import SAMPLERS

__all__ = [
    "SAMPLERS",
    "BadDemonstration",
    "Buffer",
    "Claim",
    "EpochStore",
    "GatheredRows",
    "GatheredWriter",
    "ImportStore",
    "Limits",
    "Stock",
    "TokenRow",
    "as_expert_rows",
    "as_rows",
    "encode_messages",
    "make_limits",
    "may_claim",
    "put_into_inbox",
    "read_facts",
    "read_messages",
    "read_pair",
    "rows_wanted",
    "waiting_in_inbox",
]
