"""Who owns the blocks of a `KvCache`, and which full blocks can be found again by their tokens.

A full block is known by what leads to it: the policy version, the tokens of all blocks before it, and its own. Finding
the longest known beginning of a prompt is one look-up for each block, by the tokens themselves, not by a hash of them.

Invariant: a block that can be found is full and is never written to again. A block nobody uses is free, or, if it can
be found, idle: it stays until its room is needed, the longest unused first. What a conversation left is kept to the
token for its next turn: a session also has its last block, which is not full.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ludus.lm.kv_cache import BLOCK, KvCache
from ludus.records import PolicyRef

Key = tuple[int, bytes]
"""What comes before a block, and its tokens."""


@dataclass(slots=True, kw_only=True)
class Known:
    """A full block that can be found."""

    name: int
    """What blocks after it refer to."""
    key: Key
    block: int


class BlockPool:
    """Hands out blocks, shares them, takes them back."""

    def __init__(self, cache: KvCache, *, most: int) -> None:
        """
        Args:
            cache: grown as needed.
            most: blocks up to which it grows before idle ones are given up.
        """
        self._cache = cache
        self._most = most
        self._names = itertools.count()
        self._roots: dict[PolicyRef, int] = {}
        self._known: dict[Key, Known] = {}
        self._known_of: dict[int, Known] = {}
        self._users = [0] * cache.blocks
        self._free = list(range(cache.blocks - 1, 0, -1))
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def used(self) -> int:
        """Blocks that somebody uses."""
        return self._cache.blocks - 1 - len(self._free) - len(self._idle)

    def root(self, policy: PolicyRef) -> int:
        """The name of the empty beginning under a policy version."""
        if policy not in self._roots:
            self._roots[policy] = next(self._names)
        return self._roots[policy]

    def forget(self, policy: PolicyRef) -> None:
        """Nothing computed under this version will be found again."""
        self._roots.pop(policy, None)

    def find(self, policy: PolicyRef, tokens: NDArray[np.int32]) -> tuple[list[int], int]:
        """The blocks that hold the longest known beginning of `tokens`, in full blocks, and the name of its end. They
        are not taken yet."""
        blocks: list[int] = []
        name = self.root(policy)
        for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
            known = self._known.get((name, tokens[start : start + BLOCK].tobytes()))
            if known is None:
                break
            blocks.append(known.block)
            name = known.name
        return blocks, name

    def remember(self, before: int, tokens: NDArray[np.int32], block: int) -> int:
        """Make a full block known; returns its name. If others computed the same before, theirs stays the known one."""
        key = (before, tokens.tobytes())
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Known(name=next(self._names), key=key, block=block)
            self._known_of[block] = known
        return known.name

    def is_private(self, block: int) -> bool:
        """Whether its one user may write to it."""
        return self._users[block] == 1 and block not in self._known_of

    def take(self, count: int, *, beyond: bool = False) -> list[int] | None:
        """Fresh blocks for one user; None if there is no room. `beyond` makes room past the limit."""
        if not self._make_room(count, beyond):
            return None
        blocks = [self._free.pop() for _ in range(count)]
        for block in blocks:
            self._users[block] = 1
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """One more user for each."""
        for block in blocks:
            if not self._users[block]:
                self._idle.pop(block, None)
            self._users[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """One user less for each. Later blocks of a sequence are given up before earlier ones."""
        for block in reversed(blocks):
            self._users[block] -= 1
            if self._users[block]:
                continue
            if block in self._known_of:
                self._idle[block] = None
            else:
                self._free.append(block)

    def _make_room(self, count: int, beyond: bool) -> bool:
        missing = count - len(self._free)
        if missing <= 0:
            return True
        limit = max(self._most, self._cache.blocks + missing - len(self._idle)) if beyond else self._most
        if self._cache.blocks < limit:
            self._grow(min(limit, max(2 * self._cache.blocks, self._cache.blocks + missing)))
        while len(self._free) < count and self._idle:
            block, _ = self._idle.popitem(last=False)
            known = self._known_of.pop(block)
            del self._known[known.key]
            self._free.append(block)
        return len(self._free) >= count

    def _grow(self, blocks: int) -> None:
        old = self._cache.blocks
        self._cache.grow(blocks)
        self._users += [0] * (blocks - old)
        self._free = list(range(blocks - 1, old - 1, -1)) + self._free


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
