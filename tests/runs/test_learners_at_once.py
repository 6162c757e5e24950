import pytest

from ludus.runs.population.learners_at_once import count_fitting


@pytest.mark.parametrize(
    ("cpus", "learner", "taken", "expected"),
    [
        ([4, 4], [1], [], 8),
        ([4, 4], [3], [], 2),  # a worker is on one node
        ([4, 4], [1, 1, 1], [], 2),  # two learners of three workers, and two CPUs left
        ([4, 4], [1, 1, 1], [1, 1], 2),
        ([4, 4], [1, 1, 1], [1, 1, 1], 1),
        ([0, 2], [4], [], 0),
        ([], [1], [], 0),
    ],
)
def test_as_many_learners_learn_at_once_as_fit(
    cpus: list[float], learner: list[int], taken: list[int], expected: int
) -> None:
    assert count_fitting(cpus, learner, taken) == expected
