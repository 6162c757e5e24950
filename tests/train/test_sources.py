"""Rows of several sources: how they are told apart, dealt to minibatches, and kept together where they are pairs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ludus.errors import TrainError
from ludus.records import Experiences
from ludus.train.minibatches import make_deck, round_keys, shuffle
from ludus.train.sources import EXPERT, ON_POLICY, PAIRS, keep_pairs_whole, labelled, numbered, partners
from ludus.train.token_rows import interleaved, minibatches


def rows(count: int, **sequences: Any) -> Experiences:
    return Experiences(
        sequences={name: np.array(column, None if name == "chosen" else object) for name, column in sequences.items()},
        offsets=np.arange(count + 1),
        steps={"mask": np.ones(count, bool)},
    )


def test_rows_without_a_source_are_usual() -> None:
    assert numbered(rows(3)) == {}
    assert numbered(rows(2, source=["on_policy", "on_policy"])) == {}


def test_sources_become_codes() -> None:
    found = numbered(rows(3, source=["expert", "on_policy", "expert"]))
    np.testing.assert_array_equal(found["source"], [EXPERT, ON_POLICY, EXPERT])
    assert "pair" not in found


def test_a_row_with_a_pair_is_of_a_pair_whatever_its_source_says() -> None:
    found = numbered(
        rows(4, source=["on_policy", "on_policy", "expert", "on_policy"], pair=["", "a", "a", ""], chosen=[0, 1, 0, 0])
    )
    np.testing.assert_array_equal(found["source"], [ON_POLICY, PAIRS, PAIRS, ON_POLICY])
    np.testing.assert_array_equal(found["pair"], [-1, 0, 0, -1])


def test_numbers_may_name_pairs_too() -> None:
    found = numbered(rows(5, pair=[7, -1, 7, 3, 3], chosen=[0, 0, 1, 1, 0]))
    np.testing.assert_array_equal(found["pair"], [0, -1, 0, 1, 1])


def test_a_pair_that_was_drawn_twice_is_two_pairs() -> None:
    found = numbered(rows(4, pair=["a", "a", "a", "a"], chosen=[1, 0, 1, 0]))
    np.testing.assert_array_equal(partners(found["pair"]), [1, 0, 3, 2])
    assert found["pair"].max() == 1


def test_what_is_not_a_pair_is_refused() -> None:
    with pytest.raises(TrainError, match="pair a has 1 chosen and 0 rejected"):
        numbered(rows(2, pair=["a", ""], chosen=[1, 0]))
    with pytest.raises(TrainError, match="pair a has 2 chosen and 0 rejected"):
        numbered(rows(2, pair=["a", "a"], chosen=[1, 1]))
    with pytest.raises(TrainError, match="row 0 is of the source pairs but has no pair"):
        numbered(rows(3, source=["pairs", "on_policy", "on_policy"], pair=["", "a", "a"], chosen=[0, 1, 0]))
    with pytest.raises(TrainError, match="no column pair"):
        numbered(rows(1, source=["pairs"]))
    with pytest.raises(TrainError, match=r"unknown source 'exprt'.* on_policy, expert, pairs"):
        numbered(rows(1, source=["exprt"]))


def test_rows_that_no_term_looks_at_are_left_out() -> None:
    batch = rows(4, source=["on_policy", "expert", "on_policy", "expert"], group=["a", "b", "c", "d"])
    kept = labelled(batch, frozenset({"expert"}))
    assert kept.sequences["group"].tolist() == ["b", "d"]
    assert kept.sequences["source"].tolist() == [EXPERT, EXPERT]
    assert len(labelled(batch, frozenset({"any"}))) == 4
    assert len(labelled(rows(2), frozenset({"expert"}))) == 0
    assert "source" not in labelled(rows(2, source=["on_policy", "on_policy"]), frozenset({"on_policy"})).sequences


def test_every_minibatch_has_a_fair_share_of_every_source() -> None:
    source = np.array([ON_POLICY] * 30 + [EXPERT] * 10)
    dealt = list(minibatches(40, 8, epochs=3, seed=1, source=source))
    assert [len(part) for part in dealt] == [8] * 15
    assert all(abs(np.count_nonzero(source[part] == EXPERT) - 2) <= 1 for part in dealt)
    for epoch in range(3):
        assert sorted(np.concatenate(dealt[epoch * 5 : epoch * 5 + 5]).tolist()) == list(range(40))
    assert sorted(dealt[0].tolist()) != sorted(dealt[5].tolist())


def test_minibatches_depend_on_seed_and_labels_alone() -> None:
    source = np.array([ON_POLICY, EXPERT] * 10)
    one, again, other = (list(minibatches(20, 6, epochs=1, seed=seed, source=source)) for seed in (3, 3, 4))
    for left, right in zip(one, again, strict=True):
        np.testing.assert_array_equal(left, right)
    assert any((left != right).any() for left, right in zip(one, other, strict=True))


def test_one_source_alone_is_dealt_as_if_it_had_no_name() -> None:
    plain, labelled = (
        list(minibatches(10, 4, epochs=2, seed=5, source=source)) for source in (None, np.zeros(10, np.int64))
    )
    for left, right in zip(plain, labelled, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 100])
def test_a_pair_is_never_cut(size: int) -> None:
    pair = np.array([-1, 0, 1, 2, -1, 2, 1, 0, -1, 3, 3])
    source = np.where(pair >= 0, PAIRS, ON_POLICY)
    partner = partners(pair)
    dealt = list(minibatches(11, size, epochs=2, seed=0, source=source, pair=pair))
    for part in dealt:
        assert set(partner[part]) == set(part.tolist())
        assert len(part) <= size + 1
    assert sorted(np.concatenate(dealt).tolist()) == sorted(2 * list(range(11)))


def test_parts_that_are_computed_at_once_keep_pairs_whole() -> None:
    pair = np.array([-1, 0, 1, 0, 1, -1])
    parts = keep_pairs_whole([np.array([0, 1]), np.array([2, 3]), np.array([4]), np.array([5])], pair)
    assert [part.tolist() for part in parts] == [[0, 1, 3], [2, 4], [5]]


def test_on_the_device_rows_are_interleaved_too() -> None:
    """With padding anywhere: 9 on-policy and 3 expert rows in minibatches of 4 are 3 and 1 in each."""
    weight = np.array([1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0], np.float32)
    source = np.array([0, 1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0], np.int32)
    deck = make_deck(jnp.asarray(weight), 4)
    keys = round_keys(jax.random.key(0), 1)
    order = np.asarray(jax.jit(lambda: shuffle(deck, keys[0], 4, jnp.asarray(source)))())[:12]
    assert sorted(order.tolist()) == np.flatnonzero(weight).tolist()
    for part in order.reshape(3, 4):
        assert np.count_nonzero(source[part]) == 1


def test_interleaving_keeps_the_order_within_a_source() -> None:
    source = np.array([0, 0, 0, 0, 1, 1])
    order = interleaved(source)
    assert order[source[order] == 0].tolist() == [0, 1, 2, 3]
    assert source[order].tolist() in ([0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 0])
