"""The simulation of scale keeps its books, its bounds, and what arithmetic says where one part decides."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludus.bench.scale_simulation import Costs, ScaleSimulation, Setup, simulate

SETUP = Setup(explorers=2, batch=64, chunk=8, capacity=512, max_staleness=100)
COSTS = Costs(explore_s=0.02, loop_s=0.001, train_s=0.002)
cost = st.floats(1e-4, 0.1)


@settings(max_examples=40, deadline=None)
@given(
    explorers=st.integers(1, 40),
    explore_s=cost,
    loop_s=cost,
    train_s=cost,
    publish_s=st.floats(0, 2),
    cores=st.sampled_from([1.0, 2.0, math.inf]),
    max_staleness=st.integers(0, 4),
)
def test_every_episode_is_somewhere_and_no_part_does_more_than_it_can(
    explorers: int,
    explore_s: float,
    loop_s: float,
    train_s: float,
    publish_s: float,
    cores: float,
    max_staleness: int,
) -> None:
    setup = Setup(explorers=explorers, batch=64, chunk=8, capacity=512, max_staleness=max_staleness, cores=cores)
    costs = Costs(explore_s=explore_s, loop_s=loop_s, train_s=train_s, publish_s=publish_s)
    out = simulate(setup, costs, updates=30)
    assert out.given_out == out.trained + out.refused + out.filed + out.in_flight
    assert 0 <= out.in_flight <= setup.capacity
    assert out.most_stale <= max_staleness
    batch_s = 64 / (1 / max(loop_s, train_s, explore_s / explorers))
    most = 1 / max(loop_s, train_s, explore_s / explorers, (explore_s + loop_s + train_s) / cores * (cores < math.inf))
    measured_s = 30 * batch_s
    assert out.episodes_per_s <= most * (1 + 0.5) + 512 / measured_s
    assert all(share <= 1 + 1e-6 for share in out.busy.values())


@pytest.mark.parametrize(
    ("costs", "most"),
    [
        (Costs(explore_s=0.1, loop_s=0.001, train_s=0.001), 2 / 0.1),
        (Costs(explore_s=0.001, loop_s=0.02, train_s=0.001), 1 / 0.02),
        (Costs(explore_s=0.001, loop_s=0.001, train_s=0.03), 1 / 0.03),
    ],
)
def test_the_slowest_part_decides(costs: Costs, most: float) -> None:
    assert simulate(SETUP, costs, updates=400).episodes_per_s == pytest.approx(most, rel=0.05)


def test_processes_that_share_cores_do_as_much_as_the_cores_can() -> None:
    setup = replace(SETUP, explorers=4, cores=2)
    most = 2 / (COSTS.explore_s + COSTS.loop_s + COSTS.train_s)
    assert simulate(setup, COSTS, updates=400).episodes_per_s == pytest.approx(most, rel=0.05)


def test_a_slow_publication_makes_play_staler_not_slower() -> None:
    swift = simulate(SETUP, COSTS)
    slow = simulate(SETUP, Costs(explore_s=0.02, loop_s=0.001, train_s=0.002, publish_s=1.0))
    assert slow.staleness > swift.staleness
    assert slow.episodes_per_s == pytest.approx(swift.episodes_per_s, rel=0.05)


def test_it_is_deterministic() -> None:
    assert ScaleSimulation(SETUP, COSTS).run(20.0) == ScaleSimulation(SETUP, COSTS).run(20.0)
