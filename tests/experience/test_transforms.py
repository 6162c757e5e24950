"""Reward transforms: the formulas, their old mistakes, and what they do to the columns."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ludus.config import ExperienceConfig
from ludus.errors import ConfigError, LudusError
from ludus.experience import TRANSFORMS, Stateless, TransformPhase, build_pipeline, decisions, register_transform
from ludus.experience.transforms import (
    REGISTRIES,
    FormatReward,
    InvalidMove,
    Normalise,
    NormaliseByGame,
    RoleAdvantage,
    Values,
)
from ludus.records import Experiences
from ludus.testing.conformance import ConformanceError
from ludus.testing.data_parts import check_transform
from ludus.testing.experiences import sample_experiences


def build(**stages: list[dict[str, Any]]) -> Any:
    return build_pipeline(ExperienceConfig.model_validate(stages))


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in REGISTRIES.values():
        monkeypatch.setattr(registry, "added", {})


def test_role_advantage_reads_the_baseline_before_it_updates_it() -> None:
    transform = RoleAdvantage(decay=0.95)
    batch = sample_experiences((1, 1, 1), rewards=(1.0, 1.0, -1.0))
    advantages = transform.apply(np.array([1.0, 1.0, -1.0]), batch)
    np.testing.assert_allclose(advantages, [1.0, 1.0 - 0.05, -1.0 - 0.0975], atol=1e-12)
    assert transform.baselines[("game", 0)] == pytest.approx(0.95 * 0.0975 - 0.05)


def test_role_advantage_keeps_games_and_seats_apart() -> None:
    transform = RoleAdvantage()
    batch = sample_experiences((1,) * 4, games=("a", "b", "a", "a"), seats=(0, 0, 1, 0), tasks=(0, 1, 2, 3))
    np.testing.assert_allclose(transform.apply(np.ones(4), batch), [1.0, 1.0, 1.0, 0.95])
    assert set(transform.baselines) == {("a", 0), ("b", 0), ("a", 1)}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.floats(-1, 1, width=32)), min_size=1, max_size=30), st.randoms())
def test_role_advantage_is_sequential_in_task_order_however_it_is_cut_and_shuffled(
    rows: list[tuple[int, float]], rng: Any
) -> None:
    baselines = {0: 0.0, 1: 0.0}
    expected = []
    for seat, reward in rows:
        expected.append(reward - baselines[seat])
        baselines[seat] = 0.95 * baselines[seat] + (1.0 - 0.95) * reward
    seats, rewards = [seat for seat, _ in rows], np.array([reward for _, reward in rows])
    batch = sample_experiences((1,) * len(rows), seats=seats)

    order = list(range(len(rows)))
    rng.shuffle(order)
    shuffled = RoleAdvantage().apply(rewards[order], batch.take(order))
    assert shuffled.tolist() == [expected[row] for row in order]

    cut = rng.randint(0, len(rows))
    in_parts = RoleAdvantage()
    parts = [in_parts.apply(rewards[part], batch.take(part)) for part in (order_of(0, cut), order_of(cut, len(rows)))]
    assert np.concatenate(parts).tolist() == expected


def order_of(start: int, stop: int) -> list[int]:
    return list(range(start, stop))


def test_final_stage_keeps_the_raw_reward_and_moves_the_difference_to_the_last_chosen_element() -> None:
    batch = sample_experiences((3, 2), rewards=(1.0, 1.0), tasks=(0, 1))
    mask = batch.steps["mask"].copy()
    mask[2] = False
    batch = batch.replace(steps={"mask": mask})
    shaped = build(final=[{"kind": "role_advantage"}]).on_final(batch)
    assert shaped.sequences["final_reward"].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(shaped.sequences["shaped_reward"], [1.0, 0.95])
    np.testing.assert_allclose(shaped.steps["reward"], [0.0, 0.0, 1.0, 0.0, 0.95], atol=1e-7)
    assert batch.steps["reward"].tolist() == [0.0, 0.0, 1.0, 0.0, 1.0]


def test_sum_of_rewards_follows_the_shaped_reward_through_all_stages() -> None:
    pipeline = build(
        final=[{"kind": "role_advantage"}],
        sampling=[{"kind": "normalise_by_game", "scale": True}, {"kind": "normalise"}],
    )
    batch = sample_experiences((3, 1, 2, 5), games=("a", "b", "a", "b"), rewards=(1, -1, 1, 0))
    for shaped in (pipeline.on_final(batch), pipeline.on_sample(pipeline.on_final(batch))):
        sums = np.add.reduceat(shaped.steps["reward"].astype(np.float64), shaped.offsets[:-1])
        np.testing.assert_allclose(sums, shaped.sequences["shaped_reward"], atol=1e-6)


def test_baselines_survive_a_restart() -> None:
    config = {"final": [{"kind": "role_advantage", "decay": 0.9}]}
    whole, first, second = build(**config), build(**config), build(**config)
    batches = [sample_experiences((2, 2), tasks=(2 * k, 2 * k + 1), rewards=(1.0, 0.0)) for k in range(6)]
    expected = [whole.on_final(batch).sequences["shaped_reward"].tolist() for batch in batches]
    found = [first.on_final(batch).sequences["shaped_reward"].tolist() for batch in batches[:3]]
    second.load_state(json.loads(json.dumps(first.state(), allow_nan=False)))
    found += [second.on_final(batch).sequences["shaped_reward"].tolist() for batch in batches[3:]]
    assert found == expected


def test_changed_pipeline_starts_fresh_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    saved = build(final=[{"kind": "role_advantage"}]).state()
    saved["final"][0]["name"] = "something_else"
    build(final=[{"kind": "role_advantage"}]).load_state(saved)
    assert "role_advantage of phase final is not in the checkpoint" in caplog.text


def test_format_and_invalid_move_act_on_each_decision() -> None:
    batch = sample_experiences((3, 2), rewards=(0.0, 0.0)).replace(
        steps={"format_ok": np.array([1, 0, 1, 1, 0], bool), "invalid": np.array([0, 0, 1, 0, 0], bool)}
    )
    zeros = np.zeros(5)
    assert FormatReward(1.5, -0.5).apply(zeros, batch).tolist() == [1.5, -0.5, 1.5, 1.5, -0.5]
    assert InvalidMove(0.25, -1.0).apply(zeros, batch).tolist() == [0.25, 0.25, -1.0, 0.25, 0.25]
    both = build(step=[{"kind": "format", "reward": 1.5, "penalty": -0.5}, {"kind": "invalid_move"}])
    shaped = both.on_step(batch)
    assert shaped.steps["reward"].tolist() == [1.5, -0.5, 0.5, 1.5, -0.5]
    assert shaped.sequences["shaped_reward"].tolist() == [0.0, 0.0]


def test_step_transforms_leave_games_alone_that_cannot_be_malformed() -> None:
    batch = sample_experiences((3, 2))
    shaped = build(step=[{"kind": "format", "reward": 1.0, "penalty": -1.0}, {"kind": "invalid_move"}]).on_step(batch)
    np.testing.assert_array_equal(shaped.steps["reward"], batch.steps["reward"])


def test_in_token_sequences_a_decision_is_a_whole_answer() -> None:
    batch = sample_experiences((6, 2), tokens=True)
    mask = np.array([0, 1, 1, 0, 1, 1, 1, 0], bool)
    batch = batch.replace(steps={"mask": mask, "invalid": np.ones(8, bool)})
    assert decisions(batch).tolist() == [False, False, True, False, False, True, True, False]
    assert InvalidMove().apply(np.zeros(8), batch).tolist() == [0, 0, -1, 0, 0, -1, -1, 0]


def test_normalise_puts_epsilon_inside_the_division() -> None:
    values = np.array([1.0, -1.0, 3.0, -3.0])
    batch = sample_experiences((1,) * 4)
    np.testing.assert_allclose(Normalise(scale=True).apply(values, batch), values / np.sqrt(5), rtol=1e-7)
    np.testing.assert_allclose(Normalise().apply(values + 7, batch), values)


@pytest.mark.parametrize("transform", [Normalise(scale=True), NormaliseByGame(scale=True)])
def test_equal_rewards_and_single_rewards_normalise_to_zero(transform: Any) -> None:
    for rewards in ([0.1] * 5, [3.0], [1e30] * 3):
        batch = sample_experiences((1,) * len(rewards))
        np.testing.assert_allclose(transform.apply(np.array(rewards), batch), 0.0, atol=1e-6)


def test_normalise_by_game_does_not_mix_games() -> None:
    batch = sample_experiences((1,) * 4, games=("a", "b", "a", "b"))
    assert NormaliseByGame().apply(np.array([1.0, 100.0, 3.0, 300.0]), batch).tolist() == [-1.0, -100.0, 1.0, 100.0]


def test_empty_batch_goes_through_every_stage() -> None:
    pipeline = build(final=[{"kind": "role_advantage"}], step=[{"kind": "format"}], sampling=[{"kind": "normalise"}])
    for stage in (pipeline.on_final, pipeline.on_step, pipeline.on_sample):
        assert len(stage(Experiences.empty())) == 0


def test_registry_and_config_name_the_same_transforms() -> None:
    for stage, names in TRANSFORMS.items():
        schema = ExperienceConfig.model_json_schema()["properties"][stage]
        assert set(schema["items"]["discriminator"]["mapping"]) == {*names, "custom"}


@pytest.mark.parametrize(("stage", "name"), [(stage, name) for stage, names in TRANSFORMS.items() for name in names])
def test_shipped_transforms_keep_their_promises(stage: TransformPhase, name: str) -> None:
    check_transform(stage, TRANSFORMS[stage][name])


class Broken(Stateless):
    def __init__(self, how: str) -> None:
        self.how = how

    def apply(self, values: Values, experiences: Experiences) -> Values:
        if self.how == "in place":
            values += 1.0
            return values
        return values[:-1] if self.how == "short" else values / 0.0


@pytest.mark.parametrize("how", ["in place", "short", "infinite"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_conformance_check_catches_a_broken_transform(how: str) -> None:
    with pytest.raises(ConformanceError):
        check_transform("final", lambda: Broken(how))


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_custom_transform_is_used_and_a_broken_one_is_named() -> None:
    class Double(Stateless):
        def __init__(self, factor: float = 2.0) -> None:
            self.factor = factor

        def apply(self, values: Values, experiences: Experiences) -> Values:
            return values * self.factor

    register_transform("final", "double", Double)
    register_transform("final", "broken", Broken)
    batch = sample_experiences((2,), rewards=(1.0,))
    shaped = build(final=[{"kind": "custom", "name": "double", "options": {"factor": 3.0}}]).on_final(batch)
    assert shaped.sequences["shaped_reward"].tolist() == [3.0]
    with pytest.raises(LudusError, match="transform broken of phase final"):
        build(final=[{"kind": "custom", "name": "broken", "options": {"how": "infinite"}}]).on_final(batch)
    with pytest.raises(ConfigError, match="registered already"):
        register_transform("final", "double", Broken)


def test_unknown_names_and_options_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        build(
            final=[{"kind": "custom", "name": "role_advantag"}],
            sampling=[{"kind": "custom", "name": "normalise", "options": {"scal": True}}],
        )
    first, second = caught.value.problems
    assert "experience.final.0" in first
    assert "did you mean role_advantage?" in first
    assert "experience.sampling.0" in second
    assert "scal" in second
