"""Blocks have one owner unless they are shared, are found by exactly their tokens, and none is ever lost."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.typing import NDArray

from ludus.inference.local.block_pool import BlockPool
from ludus.lm.kv_cache import BLOCK, NOWHERE, KvCache
from ludus.records import PolicyName, PolicyRef, PolicyVersion

POLICIES = [PolicyRef(name=PolicyName("main"), version=PolicyVersion(version)) for version in range(2)]


def a_cache(blocks: int) -> KvCache:
    return KvCache(layers=1, kv_heads=1, head_width=2, blocks=blocks)


def some_tokens(*parts: int) -> NDArray[np.int32]:
    """One block for each part."""
    return np.repeat(np.array(parts, np.int32), BLOCK)


class Pool(RuleBasedStateMachine):
    """Sequences come and go; what a block holds is followed beside the pool."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = a_cache(6)
        self.pool = BlockPool(self.cache, most=24)
        self.holds: dict[int, tuple[PolicyRef, tuple[int, ...]]] = {}
        self.sequences: list[list[int]] = []

    @rule(policy=st.sampled_from(POLICIES), parts=st.lists(st.integers(0, 2), min_size=1, max_size=5))
    def begin(self, policy: PolicyRef, parts: list[int]) -> None:
        known, name = self.pool.find(policy, some_tokens(*parts))
        for number, block in enumerate(known):
            assert self.holds[block] == (policy, tuple(parts[: number + 1]))
        self.pool.share(known)
        fresh = self.pool.take(len(parts) - len(known))
        if fresh is None:
            self.pool.release(known)
            return
        assert NOWHERE not in fresh
        assert not {block for blocks in self.sequences for block in blocks} & set(fresh)
        for number, block in enumerate(fresh, start=len(known)):
            self.holds[block] = (policy, tuple(parts[: number + 1]))
            name = self.pool.remember(name, some_tokens(parts[number]), block)
        self.sequences.append([*known, *fresh])

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.sequences) - 1))
        self.pool.release(self.sequences.pop(place))

    @rule(policy=st.sampled_from(POLICIES))
    def forget(self, policy: PolicyRef) -> None:
        self.pool.forget(policy)
        assert self.pool.find(policy, some_tokens(0, 1))[0] == []

    @invariant()
    def what_is_used_is_counted(self) -> None:
        assert self.pool.used == len({block for blocks in self.sequences for block in blocks})
        assert self.cache.blocks <= 24


Pool.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestPool = Pool.TestCase


def test_idle_blocks_go_longest_unused_first_and_ends_before_beginnings() -> None:
    pool = BlockPool(a_cache(5), most=5)
    old, new = pool.take(2), pool.take(2)
    assert old is not None
    assert new is not None
    for blocks, parts in ((old, (1, 2)), (new, (3, 4))):
        name = pool.root(POLICIES[0])
        for block, part in zip(blocks, parts, strict=True):
            name = pool.remember(name, some_tokens(part), block)
    pool.release(new)
    pool.release(old)
    assert pool.find(POLICIES[0], some_tokens(3, 4))[0] == new
    assert pool.take(1) is not None
    assert pool.find(POLICIES[0], some_tokens(3, 4))[0] == new[:1]
    assert pool.find(POLICIES[0], some_tokens(1, 2))[0] == old
    assert pool.take(4) is None


def test_there_is_room_past_the_limit_only_when_asked_for() -> None:
    pool = BlockPool(a_cache(4), most=4)
    assert pool.take(4) is None
    blocks = pool.take(9, beyond=True)
    assert blocks is not None
    assert len(set(blocks)) == 9


def test_growing_keeps_what_is_stored() -> None:
    cache = a_cache(3)
    cache.keys.normal_()
    cache.values.normal_()
    keys, values = cache.keys.clone(), cache.values.clone()
    cache.grow(10)
    assert cache.blocks == 10
    assert bool((cache.keys[:, :3] == keys).all())
    assert bool((cache.values[:, :3] == values).all())
