"""Which tasks are done: all below a mark, and some above it."""

from hypothesis import given
from hypothesis import strategies as st

from ludus.orchestrator.progress import crosses
from ludus.sources.done_tasks import DoneTasks


@given(st.lists(st.lists(st.integers(0, 40), max_size=8), max_size=10), st.integers(0, 10))
def test_it_behaves_like_a_set_that_holds_everything_below_its_mark(batches: list[list[int]], before: int) -> None:
    done, model = DoneTasks(before), set(range(before))
    for batch in batches:
        done.add(batch)
        model |= set(batch)
    assert [task for task in range(45) if task in done] == sorted(model)
    assert done.missing(3, 45) == [task for task in range(3, 45) if task not in model]
    assert set(range(done.before)) <= model
    assert done.before not in model
    again = DoneTasks(done.before, done.above)
    assert (again.before, again.above) == (done.before, done.above)


@given(st.integers(1, 50), st.integers(0, 200), st.integers(0, 100))
def test_a_mark_is_crossed_when_a_multiple_lies_in_between(every: int, before: int, more: int) -> None:
    expected = any(step % every == 0 for step in range(before + 1, before + more + 1))
    assert crosses(every, before, before + more) == expected
    assert not crosses(None, before, before + more)
