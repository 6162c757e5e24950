"""Batches that are issued ahead come out of a checkpoint as they were, but for tasks that are played."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ludus.records import PolicyName, PolicyRef, PolicyVersion, Seat, TaskId
from ludus.sources.batches_ahead import IssuedBatch, from_json, policies_named, to_json
from ludus.sources.done_tasks import DoneTasks

SEATS = st.builds(
    lambda name, version, learns, greedy: Seat(
        policy=PolicyRef(name=PolicyName(name), version=PolicyVersion(version)), learns=learns, greedy=greedy
    ),
    st.sampled_from(["main", "mcts-25"]),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)


@st.composite
def queues(draw: st.DrawFn) -> list[IssuedBatch]:
    size = draw(st.integers(1, 4))
    return [
        IssuedBatch(
            first=first,
            end=first + size,
            published=draw(st.integers(0, 9)),
            lineups={TaskId(task): draw(st.tuples(SEATS, SEATS)) for task in range(first, first + size)},
        )
        for first in range(0, size * draw(st.integers(0, 3)), size)
    ]


@given(queues(), st.sets(st.integers(0, 11)))
def test_what_is_not_played_yet_survives_a_checkpoint(batches: list[IssuedBatch], played: set[int]) -> None:
    done = DoneTasks()
    done.add(played)
    state = json.loads(json.dumps([to_json(batch, done) for batch in batches]))
    again = [from_json(row) for row in state]
    waiting = [{task: lineup for task, lineup in batch.lineups.items() if task not in played} for batch in batches]
    assert [batch.lineups for batch in again] == waiting
    assert [(b.first, b.end, b.published) for b in again] == [(b.first, b.end, b.published) for b in batches]
    assert policies_named(state) == {seat.policy for row in waiting for lineup in row.values() for seat in lineup}


def test_a_lineup_is_written_once() -> None:
    mirror = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),) * 2
    batch = IssuedBatch(first=0, end=4, published=0, lineups={TaskId(task): mirror for task in range(4)})
    assert to_json(batch, DoneTasks())["lineups"] == [[["main@0", True, False]] * 2]
