"""When a worker counts as hung, by what its pulse shows; the clock is the test's own."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ludus.runtime import WorkerSpec
from ludus.runtime.pulse import Pulse
from ludus.runtime.signs_of_life import START_GRACE_S, SignsOfLife

STALL_S = 60.0


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    made = Pulse()
    yield made
    made.close()


@pytest.fixture
def signs(pulse: Pulse) -> SignsOfLife:
    """Of a worker that was sent something at once."""
    spec = WorkerSpec(name="explorer-0", module="any", replies=None, stall_s=STALL_S)
    made = SignsOfLife(SimpleNamespace(spec=spec, pulse=pulse, process=SimpleNamespace(cpu_s=lambda: 0.0)), 0.0)  # type: ignore[arg-type]
    made.expect_answer(0.0)
    return made


def reason_at(signs: SignsOfLife, now: float) -> str:
    signs.look(now)
    return signs.reason_to_replace(now)


def test_a_worker_that_waited_for_a_place_has_the_whole_time_of_a_start_after_that(
    pulse: Pulse, signs: SignsOfLife
) -> None:
    for now in range(8, 800, 8):
        pulse.wait()
        assert not reason_at(signs, float(now))
    pulse.words[:] = Pulse().words  # it has a place: its page is what its host tells
    pulse.set_busy(True)  # it compiles, before its first tick
    assert not reason_at(signs, 800.0)
    assert not reason_at(signs, 800.0 + START_GRACE_S - 1.0)
    assert reason_at(signs, 800.0 + START_GRACE_S + 1.0) == f"made no progress for {START_GRACE_S:g} s"


def test_a_worker_that_has_played_is_hung_after_its_own_limit(pulse: Pulse, signs: SignsOfLife) -> None:
    pulse.tick()
    assert not reason_at(signs, 10.0)
    signs.expect_answer(10.0)
    assert not reason_at(signs, 10.0 + STALL_S - 1.0)
    assert reason_at(signs, 10.0 + STALL_S + 1.0) == f"made no progress for {STALL_S:g} s"
