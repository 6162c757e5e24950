"""Each operator: what it refuses, what it leaves alone, and that groups do not depend on their company."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludus.config import ExperienceConfig
from ludus.config.sections.experience import OperatorConfig
from ludus.errors import ConfigError, LudusError
from ludus.experience import OPERATORS, Filtered, Filters, Verdict, build_filters, make_operator, register_operator
from ludus.records import Experiences
from ludus.testing import ConformanceError, check_operator
from ludus.testing.experiences import sample_experiences

CHOICES: list[Any] = [
    "validity",
    {"kind": "validity", "min_length": 2, "max_length": 3, "malformed": "refuse"},
    {"kind": "reward_range", "low": 0.25, "high": 0.75},
    "zero_variance",
    "deduplicate",
    {"kind": "shape", "scale": 2.0, "offset": -1.0, "low": -0.5},
    {"kind": "shape", "normalise": "standardise"},
    {"kind": "pass_rate", "low": 0.2, "high": 0.8},
]


def make_filters(*operators: Any) -> Filters:
    return build_filters(ExperienceConfig.model_validate({"operators": list(operators)}))


def reasons(filtered: Filtered) -> dict[int, str]:
    columns = filtered.refused.sequences
    return dict(zip(columns["task"].tolist(), columns["reason"].tolist(), strict=True)) if len(filtered.refused) else {}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.experience.operators.OWN.added", {})


def test_config_and_registry_name_the_same_kinds() -> None:
    union, *_ = get_args(OperatorConfig)
    kinds = {get_args(model.model_fields["kind"].annotation)[0] for model in get_args(union)}
    assert kinds == {*OPERATORS, "custom"}


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_built_in_operators_conform(choice: Any) -> None:
    _, operator = make_operator(ExperienceConfig.model_validate({"operators": [choice]}).operators[0])
    for seed in range(5):
        check_operator(operator, seed=seed)


def test_rows_without_operators_are_all_kept(make_rows: Any) -> None:
    rows = make_rows((1.0, 0.0), ("a", "a"))
    filtered = make_filters().apply(rows)
    assert filtered.kept is rows
    assert not make_filters()
    assert filtered.refusals == []
    assert len(make_filters("validity").apply(Experiences.empty()).kept) == 0


def test_groups_of_equal_rewards_are_refused_and_others_kept(make_rows: Any) -> None:
    rows = make_rows((1, 1, 1, 0, 0.5, 0.5001), ("a", "a", "b", "b", "c", "c"))
    assert reasons(make_filters("zero_variance").apply(rows)) == {0: "zero_variance", 1: "zero_variance"}
    wide = make_filters({"kind": "zero_variance", "tolerance": 0.01}).apply(rows)
    assert set(reasons(wide)) == {0, 1, 4, 5}
    assert wide.metrics["experience/zero_variance"] == pytest.approx(2 / 3)
    assert wide.metrics["experience/kept"] == pytest.approx(1 / 3)


def test_last_of_a_group_has_nothing_to_be_compared_with_but_a_row_without_a_group_stays(make_rows: Any) -> None:
    rows = make_rows((1, 1), ("a", ""))
    assert reasons(make_filters("zero_variance").apply(rows)) == {0: "zero_variance"}


def test_variance_is_that_of_what_is_learnt_not_of_what_the_game_gave(make_rows: Any) -> None:
    """A judge's bonus is in the tokens' rewards alone."""
    rows = make_rows((1, 1), ("a", "a"))
    reward = rows.steps["reward"].copy()
    reward[3] += 0.5
    assert reasons(make_filters("zero_variance").apply(rows.replace(steps={"reward": reward}))) == {}


def test_seats_are_compared_with_the_same_seat_only() -> None:
    rows = sample_experiences((2,) * 4, tasks=(0, 0, 1, 1), seats=(0, 1, 0, 1), rewards=(1, -1, 1, -1))
    rows = rows.replace(sequences={"group": np.array(["a"] * 4, object)})
    assert len(make_filters("zero_variance").apply(rows).kept) == 0


def test_several_rows_of_one_episode_count_once(make_rows: Any) -> None:
    rows = make_rows((1, 1, 0), ("a", "a", "a"))
    rows = rows.replace(
        sequences={"episode": np.array(["x", "x", "y"], object), "turn": np.array([0, 1, 0])},
    )
    filtered = make_filters({"kind": "pass_rate", "low": 0.5, "high": 0.5}).apply(rows)
    assert len(filtered.kept) == 3
    assert filtered.metrics["experience/pass_rate"] == 0.5


def test_pass_rate_keeps_groups_in_its_range_and_is_logged(make_rows: Any) -> None:
    rows = make_rows((1, 1, 1, 1, 0, 0, 0, 0, 1), ("a", "a", "a", "b", "b", "b", "c", "c", "c"))
    filtered = make_filters({"kind": "pass_rate", "low": 0.3, "high": 0.35}).apply(rows)
    assert set(filtered.kept.sequences["group"].tolist()) == {"b", "c"}
    assert set(reasons(filtered).values()) == {"pass_rate"}
    assert filtered.metrics["experience/pass_rate"] == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)
    assert "100% of group a succeeded" in filtered.refusals[0].detail


def test_reward_range_has_open_ends_and_includes_its_bounds(make_rows: Any) -> None:
    rows = make_rows((-1, 0, 1, 2), ("a",) * 4)
    assert set(reasons(make_filters({"kind": "reward_range", "low": 0}).apply(rows))) == {0}
    assert set(reasons(make_filters({"kind": "reward_range", "high": 1}).apply(rows))) == {3}


def test_same_tokens_in_a_group_are_kept_once_and_the_lowest_task_stays(make_rows: Any) -> None:
    rows = make_rows((1, 0, 1, 1), ("a", "a", "a", "b"))
    action = np.tile(rows.steps["action"][:4], 4)
    action[4] += 1
    rows = rows.replace(steps={"action": action}).take([3, 2, 1, 0])
    filtered = make_filters("deduplicate").apply(rows)
    assert reasons(filtered) == {2: "same_content"}
    assert "episode-0" in filtered.refusals[0].detail
    assert len(make_filters({"kind": "deduplicate", "keep": 2}).apply(rows).kept) == 4


def test_validity_refuses_what_was_cut_is_too_short_or_could_not_be_read(make_rows: Any) -> None:
    rows = make_rows((1, 1, 1, 1), ("a",) * 4, lengths=(2, 4, 4, 9))
    format_ok = np.ones(rows.step_count, np.bool_)
    format_ok[5] = False  # the answer of row 1 ends there
    truncated = np.array([False, False, True, False])
    rows = rows.replace(sequences={"truncated": truncated}, steps={"format_ok": format_ok})
    all_of_it = make_filters({"kind": "validity", "min_length": 2, "max_length": 7, "malformed": "refuse"}).apply(rows)
    assert reasons(all_of_it) == {0: "too_short", 1: "malformed", 2: "truncated", 3: "too_long"}
    assert reasons(make_filters("validity").apply(rows)) == {2: "truncated"}
    assert reasons(make_filters({"kind": "validity", "truncated": "keep"}).apply(rows)) == {}


def test_shape_is_affine_then_cut_and_lands_on_the_last_chosen_element(make_rows: Any) -> None:
    rows = make_rows((1, 0, -1), ("a", "a", "a"))
    kept = make_filters({"kind": "shape", "scale": 2, "offset": 1, "low": 0.0, "high": 2.5}).apply(rows).kept
    assert kept.sequences["shaped_reward"].tolist() == [2.5, 1.0, 0.0]
    assert kept.sequences["raw_reward"].tolist() == [1.0, 0.0, -1.0]
    assert kept.sequences["final_reward"].tolist() == [1.0, 0.0, -1.0]
    assert kept.steps["reward"][[3, 7, 11]].tolist() == [2.5, 1.0, 0.0]


def test_normalised_groups_have_mean_0_and_deviation_1_and_equal_ones_exactly_0(make_rows: Any) -> None:
    rows = make_rows((3, 1, 0.1, 0.1, 0.1, 7), ("a", "a", "b", "b", "b", ""))
    kept = make_filters({"kind": "shape", "normalise": "standardise"}).apply(rows).kept
    half = np.sqrt(0.5)
    assert kept.sequences["shaped_reward"].tolist() == pytest.approx([half, -half, 0, 0, 0, 7])
    centred = make_filters({"kind": "shape", "normalise": "centre"}).apply(rows).kept
    assert centred.sequences["shaped_reward"].tolist() == [1, -1, 0, 0, 0, 7]


def test_operators_work_in_order_on_what_the_one_before_left(make_rows: Any) -> None:
    rows = make_rows((1, 1, 0), ("a", "a", "a"))
    halved = {"kind": "shape", "scale": 0.5}
    assert len(make_filters({"kind": "reward_range", "high": 0.5}, halved).apply(rows).kept) == 1
    assert len(make_filters(halved, {"kind": "reward_range", "high": 0.5}).apply(rows).kept) == 3
    # Once the 0 is gone, the others are equal.
    gone = make_filters({"kind": "reward_range", "low": 0.5}, "zero_variance").apply(rows)
    assert reasons(gone) == {0: "zero_variance", 1: "zero_variance", 2: "reward_range"}


def test_refused_rows_are_as_they_came(make_rows: Any) -> None:
    rows = make_rows((1, 1, 1, 0), ("a", "a", "b", "b"))
    refused = make_filters({"kind": "shape", "scale": 9}, "zero_variance").apply(rows).refused
    assert refused.sequences["shaped_reward"].tolist() == [1.0, 1.0]
    assert np.array_equal(refused.steps["reward"], rows.take([0, 1]).steps["reward"])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=24),
    st.permutations(CHOICES),
    st.randoms(use_true_random=False),
)
def test_a_group_comes_to_the_same_alone_and_in_any_company(
    drawn: list[tuple[int, float]], order: list[Any], rng: Any
) -> None:
    rows = sample_experiences([1 + task % 5 for task in range(len(drawn))], rewards=[reward for _, reward in drawn])
    rows = rows.replace(sequences={"group": np.array([f"g{group}" if group else "" for group, _ in drawn], object)})
    tested = make_filters(*order[:4])
    shuffled = list(range(len(rows)))
    rng.shuffle(shuffled)
    whole = tested.apply(rows.take(shuffled))
    assert sorted([*rows_of(whole.kept), *rows_of(whole.refused)]) == list(range(len(rows)))
    groups = rows.sequences["group"].tolist()
    for group in set(groups):
        alone = tested.apply(rows.take([row for row, name in enumerate(groups) if name == group]))
        together = whole.kept.sequences["group"] == group if len(whole.kept) else np.zeros(0, bool)
        assert sorted(rows_of(alone.kept)) == sorted(rows_of(whole.kept.take(np.flatnonzero(together))))
        assert reasons(alone).items() <= reasons(whole).items()


def rows_of(rows: Experiences) -> list[int]:
    return [int(task) for task in rows.sequences["task"]] if len(rows) else []


# -- one's own ---------------------------------------------------------------------------------------------------------


def no_long_ones(group: Experiences, most: int = 3) -> Verdict:
    long = np.flatnonzero(group.lengths > most).tolist()
    return Verdict(refused={row: ("rambling", f"{group.lengths[row]} tokens") for row in long}, metrics={"long": [1.0]})


@pytest.mark.usefixtures("registry")
def test_registered_function_is_an_operator(make_rows: Any) -> None:
    register_operator("no_long_ones", no_long_ones)
    rows = make_rows((1, 0, 1), ("a", "a", "b"), lengths=(2, 5, 3))
    filtered = make_filters({"kind": "custom", "name": "no_long_ones", "options": {"most": 4}}).apply(rows)
    assert reasons(filtered) == {1: "rambling"}
    assert filtered.metrics["experience/long"] == 1.0
    check_operator(no_long_ones, most=3)


@pytest.mark.usefixtures("registry")
def test_unknown_operators_are_named_with_their_place_and_the_nearest() -> None:
    register_operator("no_long_ones", no_long_ones)
    with pytest.raises(ConfigError) as refused:
        make_filters("validity", {"kind": "custom", "name": "no_long_one"}, {"kind": "custom", "name": "xyz"})
    first, second = refused.value.problems
    assert (
        first
        == "experience.operators.1: operator 'no_long_one': no such operator; did you mean no_long_ones? Else: one of your own needs --plugin FILE"
    )
    assert "--plugin" in second
    with pytest.raises(ConfigError, match="expected a new name"):
        register_operator("", no_long_ones)


def raising(group: Experiences) -> Verdict:
    raise KeyError("reward")


def answering(answer: Any) -> Any:
    return lambda group: answer


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raising, "operator mine failed on group a: KeyError: 'reward'"),
        (answering(None), "gave a NoneType; expected a Verdict"),
        (answering(Verdict(refused={2: ("x", "y")})), r"refused 2 .* expected a row from 0 to 1"),
        (answering(Verdict(refused={0: "x"})), "with a reason and a detail"),  # type: ignore[dict-item]
        (answering(Verdict(rewards=np.array([np.nan, 0.0]))), "must give 2 finite rewards"),
        (answering(Verdict(rewards=np.zeros(3))), "must give 2 finite rewards"),
        (answering(Verdict(rewards=np.array([1e300, 0.0]))), "larger than a float of 32 bits"),
    ],
)
def test_function_that_breaks_its_promise_stops_the_run_with_its_name(make_rows: Any, function: Any, said: str) -> None:
    register_operator("mine", function)
    with pytest.raises(LudusError, match=said):
        make_filters({"kind": "custom", "name": "mine"}).apply(make_rows((1, 0), ("a", "a")))


def forgetful() -> Any:
    seen: list[int] = []

    def operator(group: Experiences) -> Verdict:
        seen.append(len(group))
        return Verdict(refused={0: ("seen", "before")} if len(seen) > 1 else {})

    return operator


class ByBatch:
    """Looks beyond the group."""

    def judge(self, rows: Experiences, groups: Any) -> Verdict:
        return Verdict(rewards=np.full(len(rows), rows.sequences["shaped_reward"].mean()))


class Meddling:
    """Changes what it was given."""

    def judge(self, rows: Experiences, groups: Any) -> Verdict:
        rows.sequences["shaped_reward"][:] = 0
        return Verdict()


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        (forgetful(), "another verdict"),
        (ByBatch(), "alone than in company"),
        (Meddling(), "changed the column shaped_reward"),
        (answering(3), "expected a Verdict"),
    ],
)
def test_check_operator_names_the_broken_promise(operator: Any, said: str) -> None:
    with pytest.raises(ConformanceError, match=said):
        check_operator(operator)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"kind": "reward_range"}, "expected low, high or both"),
        ({"kind": "reward_range", "low": 1.0, "high": 0.0}, "up to high"),
        ({"kind": "shape"}, "expected something beside the kind"),
        ({"kind": "shape", "low": 1.0, "high": 0.0}, "up to high"),
        ({"kind": "pass_rate", "low": 0.9, "high": 0.1}, "up to high"),
        ({"kind": "validity", "min_length": 9, "max_length": 1}, "up to max_length"),
    ],
)
def test_operators_that_cannot_work_are_refused(choice: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ExperienceConfig.model_validate({"operators": [choice]})
