"""What endpoints cost is known for the whole run, whatever happens to the explorers."""

from ludus.orchestrator.endpoint_bill import EndpointBill


def test_what_explorers_tell_adds_up() -> None:
    bill = EndpointBill(2)
    bill.add("explorer-0", {"endpoints/gpt/cost": 1.0, "endpoints/gpt/requests": 3.0})
    bill.add("explorer-1", {"endpoints/gpt/cost": 0.5})
    bill.add("explorer-0", {"endpoints/gpt/cost": 0.25})
    assert bill.metrics() == {"explore/endpoints/gpt/cost": 1.75, "explore/endpoints/gpt/requests": 3.0}


def test_a_replaced_explorer_begins_with_what_the_one_before_it_spent() -> None:
    bill = EndpointBill(2)
    assert bill.spent("explorer-0") == {}
    bill.add("explorer-0", {"endpoints/gpt/cost": 1.0, "endpoints/gpt/requests": 3.0})
    assert bill.spent("explorer-0") == {"gpt": 1.0}
    assert bill.spent("explorer-1") == {"gpt": 0.0}


def test_what_was_spent_before_a_restart_is_divided_among_the_explorers_of_now() -> None:
    before = EndpointBill(1)
    before.add("explorer-0", {"endpoints/gpt/cost": 6.0, "judge/verdicts": 2.0, "judge/score_sum": 1.0})
    after = EndpointBill(3)
    after.load_state(before.state())
    after.add("explorer-2", {"endpoints/gpt/cost": 0.5})
    assert [after.spent(f"explorer-{number}") for number in range(3)] == [{"gpt": 2.0}, {"gpt": 2.0}, {"gpt": 2.5}]
    assert after.metrics()["explore/endpoints/gpt/cost"] == 6.5
    assert after.metrics()["explore/judge/verdicts"] == 2.0


def test_the_judges_score_is_the_mean_of_its_verdicts() -> None:
    bill = EndpointBill(1)
    assert "explore/judge/score" not in bill.metrics()
    bill.add("explorer-0", {"judge/verdicts": 3.0, "judge/score_sum": 3.0})
    bill.add("explorer-0", {"judge/verdicts": 1.0, "judge/score_sum": 0.0})
    assert bill.metrics() == {"explore/judge/score": 0.75, "explore/judge/verdicts": 4.0}
