"""Permutations without sorting: they are permutations, they are random, and padding does not change them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ludus.train.minibatches import permutation, round_keys

permute = jax.jit(permutation, static_argnums=2)
KEYS = round_keys(jax.random.key(0), 4000)


def test_every_count_gives_a_permutation_and_leaves_the_padding() -> None:
    for count in (0, 1, 2, 3, 5, 17, 63, 64, 65, 100, 127, 128):
        order = np.asarray(permute(KEYS[count], jnp.int32(count), 128))
        np.testing.assert_array_equal(np.sort(order[:count]), np.arange(count))
        np.testing.assert_array_equal(order[count:], np.arange(count, 128))


def test_the_padding_does_not_change_the_order() -> None:
    short, long = permute(KEYS[0], jnp.int32(50), 64), permute(KEYS[0], jnp.int32(50), 512)
    np.testing.assert_array_equal(short[:50], long[:50])


def test_every_row_comes_to_every_place_about_equally_often() -> None:
    orders = np.asarray(jax.jit(jax.vmap(lambda keys: permutation(keys, jnp.int32(10), 16)))(KEYS))[:, :10]
    counts = np.stack([np.bincount(orders[:, place], minlength=10) for place in range(10)])
    chi_square = ((counts - 400.0) ** 2 / 400.0).sum()
    assert chi_square < 81 + 5 * np.sqrt(2 * 81)  # 81 degrees of freedom; five standard deviations


def test_neighbours_part() -> None:
    orders = np.asarray(jax.jit(jax.vmap(lambda keys: permutation(keys, jnp.int32(100), 128)))(KEYS[:500]))[:, :100]
    share = (np.diff(orders, axis=1) == 1).mean()
    assert 0.005 < share < 0.015
