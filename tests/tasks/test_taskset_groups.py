"""Open groups keep their row, count each attempt once, and close once."""

import json

import pytest

from ludus.errors import StorageError
from ludus.tasks.taskset_tasks import GroupLedger, OpenGroup


def test_a_group_is_settled_when_all_its_attempts_are_back_in_order_of_numbers() -> None:
    ledger = GroupLedger(2)
    for group in (3, 1, 2):
        ledger.open(group, "a", 10 + group)
    for group, attempt, reward in ((3, 1, 1.0), (3, 0, None), (1, 0, 0.5), (2, 0, 0.0), (1, 1, 0.25), (1, 1, 0.25)):
        ledger.note(group, attempt, reward)
    assert ledger.settle(before=1) == []
    assert ledger.settle() == [
        OpenGroup(taskset="a", row=11, rewards={0: 0.5, 1: 0.25}),
        OpenGroup(taskset="a", row=13, rewards={0: None, 1: 1.0}),
    ]
    assert ledger.settle() == []
    assert len(ledger) == 1
    assert [ledger.is_settled(group) for group in range(4)] == [False, True, False, True]


def test_a_settled_group_is_never_opened_again_and_a_row_never_changes() -> None:
    ledger = GroupLedger(1)
    ledger.open(0, "a", 5)
    ledger.open(0, "a", 5)
    with pytest.raises(StorageError, match="group g0: row 5 of a was chosen, but row 6 of a attempted"):
        ledger.open(0, "a", 6)
    ledger.note(0, 0, 1.0)
    ledger.settle()
    with pytest.raises(StorageError, match="group g0 is settled already"):
        ledger.open(0, "a", 5)
    with pytest.raises(StorageError, match="group g0 is settled already"):
        ledger.find(0)


def test_the_state_goes_through_json_and_stays_small() -> None:
    ledger = GroupLedger(2)
    for group in range(1000):
        ledger.open(group, "a", group % 7)
        ledger.note(group, 0, 0.1 * group)
        if group not in (997, 999):
            ledger.note(group, 1, None)
        ledger.settle()
    state = json.loads(json.dumps(ledger.state()))
    assert state["settled_before"] == 997
    assert state["settled"] == [998]
    resumed = GroupLedger(2)
    resumed.load_state(state)
    assert resumed.state() == ledger.state()
    for each in (ledger, resumed):
        each.note(999, 1, 1.0)
        each.note(997, 1, 1.0)
    assert resumed.settle() == ledger.settle()
    assert resumed.state() == {"open": [], "settled_before": 1000, "settled": []}
