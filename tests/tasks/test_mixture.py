"""Several sets by weight, as a function of the group's number."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.tasks.mixed_tasks import Mixture

WEIGHTS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6)


@given(weights=WEIGHTS, seed=st.integers(0, 2**32))
def test_shares_are_kept_at_all_times_and_no_groups_number_is_left_out(weights: list[float], seed: int) -> None:
    mixture = Mixture(weights, seed)
    next_numbers = [count() for _ in weights]
    counts = [0] * len(weights)
    for group in range(300):
        index, number = mixture.place(group)
        assert number == next(next_numbers[index])
        counts[index] += 1
        for have, weight in zip(counts, weights, strict=True):
            assert abs(have - (group + 1) * weight / sum(weights)) <= len(weights)


def test_one_set_takes_everything() -> None:
    assert [Mixture([3.0], 0).place(group) for group in range(3)] == [(0, 0), (0, 1), (0, 2)]


def test_places_far_out_are_as_exact_as_the_first() -> None:
    mixture = Mixture([1.0, 2.0, 0.1], 7)
    far = 10**15
    numbers: dict[int, int] = {}
    for group in range(far, far + 1000):
        index, number = mixture.place(group)
        assert number == numbers.get(index, number - 1) + 1
        numbers[index] = number
    assert len(numbers) == 3
    assert numbers[1] / numbers[0] == pytest.approx(2.0, rel=1e-5)


def test_a_tiny_weight_still_gets_its_turn() -> None:
    mixture = Mixture([1e-9, 1.0], 0)
    # The number of the last group of the second set says how many there were of the first.
    assert [1_000_000 * n - mixture.place(1_000_000 * n)[1] for n in (1, 2, 5)] == [1, 2, 5]


def test_another_seed_begins_elsewhere() -> None:
    orders = {tuple(Mixture([1.0, 2.0, 3.0], seed).place(group)[0] for group in range(12)) for seed in range(20)}
    assert len(orders) > 3
