"""What conversations left in the cache, to the token: the next turn goes on from there.

Full blocks can be found by anyone (`BlockPool.find`); a session also keeps its last block, which is not full.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ludus.inference.local.block_pool import BlockPool
from ludus.records import PolicyRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The tokens of a session that are in the cache, and where."""

    policy: PolicyRef
    tokens: NDArray[np.int32]
    blocks: list[int]

    def shared_with(self, prompt: NDArray[np.int32]) -> int:
        """Tokens at the beginning that the prompt has too."""
        length = min(len(self.tokens), len(prompt))
        differs = np.flatnonzero(self.tokens[:length] != prompt[:length])
        return int(differs[0]) if len(differs) else length


class Sessions:
    """Kept beginnings by session; the longest unused are given up when room is needed."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, session: str, kept: Kept) -> None:
        """Keep a beginning; its blocks pass to the session."""
        self.drop(session)
        self._kept[session] = kept

    def take(self, session: str) -> Kept | None:
        """What is kept for a session; its blocks pass to the caller."""
        return self._kept.pop(session, None)

    def drop(self, session: str) -> None:
        """Give up what is kept for a session, if anything is."""
        kept = self._kept.pop(session, None)
        if kept is not None:
            self._pool.release(kept.blocks)

    def drop_oldest(self) -> bool:
        """Give up one session; False if there is none."""
        if not self._kept:
            return False
        self.drop(next(iter(self._kept)))
        return True

    def drop_policy(self, policy: PolicyRef) -> None:
        """Give up what was computed under a version."""
        for session in [name for name, kept in self._kept.items() if kept.policy == policy]:
            self.drop(session)
