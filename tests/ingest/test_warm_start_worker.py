"""What a warm start learns from depends on the config alone."""

import numpy as np

from ludus.ingest.warm_start_worker import in_task_order, that_fit, with_everything
from ludus.testing.experiences import sample_experiences


def test_sequences_are_learnt_in_task_order_whichever_game_was_over_first() -> None:
    played = sample_experiences([3, 1, 2, 4, 2, 5], tasks=[0, 0, 1, 1, 2, 2], seats=[0, 1] * 3, tokens=True)
    orders = [np.random.default_rng(seed).permutation(6) for seed in range(5)]
    assert len({tuple(order) for order in orders}) == 5
    for order in orders:
        again = in_task_order(played.take(order))
        assert again.sequences["task"].tolist() == [0, 0, 1, 1, 2, 2]
        assert again.sequences["seat"].tolist() == [0, 1] * 3
        assert again.offsets.tolist() == played.offsets.tolist()
        assert again.steps["action"].tolist() == played.steps["action"].tolist()


def test_everything_but_the_first_token_of_a_sequence_is_learnt() -> None:
    played = sample_experiences([3, 1, 2], tokens=True)
    assert with_everything(played).steps["mask"].tolist() == [False, True, True, False, False, True]


def test_a_game_longer_than_the_context_costs_itself_alone() -> None:
    played = sample_experiences([3, 9, 2, 8], tokens=True)
    fitting, too_long = that_fit(played, 8)
    assert (fitting.lengths.tolist(), too_long) == ([3, 2, 8], 1)
    assert that_fit(played, 9)[0].steps["action"].tolist() == played.steps["action"].tolist()
