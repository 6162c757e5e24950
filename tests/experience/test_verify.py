"""Raw to verified: every kind of bad row is refused by name, alone, and nothing else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ludus.experience import Refusal, Refusals, Verified, verify
from ludus.games.protocol import GameSpec
from ludus.records import (
    Episode,
    EpisodeBatch,
    EpisodeId,
    Experiences,
    PolicyName,
    PolicyRef,
    Seat,
    Task,
    TaskId,
)
from ludus.testing.experiences import ACTIONS, OBSERVATION_SHAPE, sample_experiences

SPEC = GameSpec(key="game", players=2, actions=ACTIONS, observation_shape=OBSERVATION_SHAPE, max_length=9)


def episode(name: str, *, returns: tuple[float, ...] = (1.0, -1.0), error: str = "", game: str = "game") -> Episode:
    seats = (Seat(policy=PolicyRef(name=PolicyName("main")), learns=True),) * 2
    task = Task(id=TaskId(int(name.split("-")[1])), game=game, seed=0, seats=seats)
    none = np.zeros(0, np.int32)
    return Episode(
        id=EpisodeId(name),
        task=task,
        returns=returns,
        error=error,
        move_plies=none,
        move_seats=none.astype(np.int16),
        move_actions=none,
    )


def run(experiences: Experiences, *, specs: dict[str, GameSpec] | None = None, **changed: Episode) -> Verified:
    names = dict.fromkeys(str(name) for name in experiences.sequences.get("episode", ()))
    episodes = tuple(changed.get(name.replace("-", "_"), episode(name)) for name in names)
    return verify(
        EpisodeBatch(episodes=episodes, experiences=experiences),
        specs={"game": SPEC} if specs is None else specs,
        known_versions=lambda policy, version: policy == "main" and version <= 5,
    )


def with_step(experiences: Experiences, column: str, index: Any, value: Any) -> Experiences:
    changed = experiences.steps[column].copy()
    changed[index] = value
    return experiences.replace(steps={column: changed})


def with_row(experiences: Experiences, column: str, row: int, value: Any) -> Experiences:
    changed = experiences.sequences[column].copy()
    changed[row] = value
    return experiences.replace(sequences={column: changed})


GOOD = sample_experiences((3, 1, 2, 4), version=5)


def test_good_batch_passes_whole_and_shaped_reward_starts_as_the_final_one() -> None:
    changed = with_row(GOOD, "shaped_reward", 0, 99.0)
    verified = run(changed)
    assert verified.refused == []
    assert len(verified.episodes) == len(verified.experiences) == 4
    np.testing.assert_array_equal(verified.experiences.sequences["shaped_reward"], GOOD.sequences["final_reward"])
    assert all(np.array_equal(verified.experiences.steps[name], GOOD.steps[name]) for name in GOOD.steps)


# Elements 4 and 5 are row 2's.
BAD_ROWS = [
    (with_step(GOOD, "reward", 5, np.nan), "not_finite", "element 1: reward"),
    (with_step(GOOD, "logp", 4, -np.inf), "not_finite", "element 0: logp"),
    (with_step(GOOD, "value", 4, np.inf), "not_finite", "value"),
    (with_step(GOOD, "observation", (5, 1, 0), np.nan), "not_finite", "element 1: observation"),
    (with_row(GOOD, "final_reward", 2, np.nan), "not_finite", "final_reward"),
    (with_row(GOOD, "final_reward", 2, 1.5), "out_of_range", "1.5"),
    (with_step(GOOD, "logp", 4, 0.5), "bad_logp", "0.5"),
    (with_step(GOOD, "action", 5, ACTIONS), "illegal_action", "action 3 does not exist"),
    (with_step(GOOD, "action", 5, -1), "illegal_action", "does not exist"),
    (with_step(GOOD, "legal", 5, False), "illegal_action", "not legal"),
    (with_step(GOOD, "version", 5, 6), "unknown_version", "main@6"),
    (with_row(GOOD, "policy", 2, "other"), "unknown_version", "other@5"),
    (with_row(GOOD, "game", 2, "chess"), "unknown_game", "'chess'"),
    (with_row(GOOD, "seat", 2, 2), "schema", "seat 2"),
    (with_step(GOOD, "mask", slice(4, 6), False), "empty", "none"),
]


@pytest.mark.parametrize(("experiences", "reason", "detail"), BAD_ROWS)
def test_bad_row_costs_itself_only(experiences: Experiences, reason: str, detail: str) -> None:
    verified = run(experiences)
    (refusal,) = verified.refused
    assert (refusal.episode, refusal.reason) == ("episode-2", reason)
    assert detail in refusal.detail
    assert verified.experiences.sequences["task"].tolist() == [0, 1, 3]
    assert len(verified.episodes) == 4
    kept = GOOD.take([0, 1, 3])
    assert all(np.array_equal(verified.experiences.steps[name], kept.steps[name]) for name in kept.steps)


def test_row_with_two_faults_is_counted_once() -> None:
    verified = run(with_step(with_step(GOOD, "reward", 4, np.nan), "action", 5, 77))
    assert [refusal.reason for refusal in verified.refused] == ["not_finite"]


def test_elements_that_the_policy_did_not_choose_need_no_known_version_and_no_legal_action() -> None:
    prompt = with_step(with_step(with_step(GOOD, "mask", 4, False), "version", 4, 999), "legal", 4, False)
    assert run(prompt).refused == []


def test_token_sequences_have_no_bound_on_token_ids() -> None:
    tokens = with_step(sample_experiences((5, 4), tokens=True), "action", slice(None), 150_000)
    assert run(tokens).refused == []
    assert [r.reason for r in run(with_step(tokens, "action", 2, -5)).refused] == ["illegal_action"]


def test_same_seat_of_the_same_episode_twice_is_kept_once() -> None:
    verified = run(GOOD.take([0, 1, 0]))
    assert [(r.episode, r.reason) for r in verified.refused] == [("episode-0", "duplicate")]
    assert verified.experiences.sequences["task"].tolist() == [0, 1]


def test_failed_episode_takes_its_rows_with_it_and_is_counted_once() -> None:
    verified = run(GOOD, episode_1=episode("episode-1", error="EnvError: it raised"))
    assert [(r.episode, r.seat, r.reason) for r in verified.refused] == [("episode-1", -1, "failed")]
    assert verified.experiences.sequences["task"].tolist() == [0, 2, 3]
    assert [e.id for e in verified.episodes] == ["episode-0", "episode-2", "episode-3"]


@pytest.mark.parametrize(
    ("returns", "reason"),
    [((1.0,), "schema"), ((float("nan"), 0.0), "not_finite"), ((3.0, -3.0), "out_of_range")],
)
def test_episode_with_impossible_returns_is_refused(returns: tuple[float, ...], reason: str) -> None:
    verified = run(GOOD, episode_3=episode("episode-3", returns=returns))
    assert [(r.episode, r.reason) for r in verified.refused] == [("episode-3", reason)]
    assert len(verified.experiences) == 3


def test_row_without_its_episode_is_refused() -> None:
    batch = EpisodeBatch(episodes=(episode("episode-0"),), experiences=GOOD)
    verified = verify(batch, specs={"game": SPEC}, known_versions=lambda policy, version: True)
    assert [r.reason for r in verified.refused] == ["orphan"] * 3
    assert len(verified.experiences) == 1


def without(experiences: Experiences, column: str) -> Experiences:
    return Experiences(
        sequences={name: values for name, values in experiences.sequences.items() if name != column},
        offsets=experiences.offsets,
        steps={name: values for name, values in experiences.steps.items() if name != column},
    )


@pytest.mark.parametrize(
    ("experiences", "detail"),
    [
        (without(GOOD, "logp"), "column logp is missing"),
        (without(GOOD, "task"), "column task is missing"),
        (GOOD.replace(steps={"reward": GOOD.steps["reward"][:-1]}), "column reward has shape"),
        (GOOD.replace(steps={"action": GOOD.steps["action"].astype(np.float32)}), "column action is float32"),
        (GOOD.replace(steps={"value": GOOD.steps["value"].astype(np.float64)}), "expected float32"),
        (GOOD.replace(sequences={"seat": GOOD.sequences["seat"][:2]}), "column seat has shape"),
        (GOOD.replace(steps={"legal": GOOD.steps["legal"][:, 0]}), "column legal"),
        (Experiences(sequences=GOOD.sequences, offsets=np.array([0, 3, 2, 6, 10]), steps=GOOD.steps), "offsets"),
        (Experiences(sequences=GOOD.sequences, offsets=np.array([0, 3, 4, 6, 99]), steps=GOOD.steps), "99 rows"),
    ],
)
def test_broken_schema_refuses_every_row_and_raises_nothing(experiences: Experiences, detail: str) -> None:
    verified = run(experiences)
    assert len(verified.experiences) == 0
    assert len(verified.refused) == 4
    assert all(r.reason == "schema" and detail in r.detail for r in verified.refused)


def test_wrong_shape_for_the_game_refuses_that_game_only() -> None:
    other = GameSpec(key="other", players=2, actions=9, observation_shape=(3,), max_length=9)
    mixed = with_row(GOOD, "game", 1, "other")
    verified = run(mixed, specs={"game": SPEC, "other": other})
    assert [(r.episode, r.reason) for r in verified.refused] == [("episode-1", "schema")]


def test_slice_of_a_longer_batch_is_understood() -> None:
    part = Experiences(
        sequences={name: column[1:3] for name, column in GOOD.sequences.items()},
        offsets=GOOD.offsets[1:4],
        steps=GOOD.steps,
    )
    verified = run(part)
    assert verified.refused == []
    np.testing.assert_array_equal(verified.experiences.steps["action"], GOOD.steps["action"][3:6])


def test_batch_without_experience_passes() -> None:
    verified = run(Experiences.empty())
    assert len(verified.experiences) == 0
    assert verified.refused == []


def test_huge_but_finite_numbers_pass() -> None:
    huge = GOOD.replace(steps={"value": np.full(10, 3e38, np.float32)})
    assert run(huge).refused == []


def test_refusals_are_counted_with_bounded_examples_and_survive_json() -> None:
    refusals = Refusals()
    for _ in range(50):
        refusals.add(run(BAD_ROWS[0][0]).refused)
    refusals.add([Refusal(episode="e", seat=0, reason="stale", detail="")] * 7)
    assert refusals.counts == {"not_finite": 50, "stale": 7}
    assert refusals.total == 57
    assert len(refusals.examples("not_finite")) == 3
    assert "episode-2 seat 0" in refusals.examples("not_finite")[0]
    restored = Refusals()
    restored.load_state(refusals.state())
    assert restored.state() == refusals.state()


def test_refused_rows_come_out_as_they_were_with_their_reason() -> None:
    bad = with_step(GOOD, "reward", 5, np.nan)
    verified = run(bad, episode_0=episode("episode-0", error="broke"))
    refused = verified.refused_rows
    assert refused.sequences["episode"].tolist() == ["episode-0", "episode-2"]
    assert refused.sequences["reason"].tolist() == ["failed", "not_finite"]
    assert refused.sequences["detail"].tolist() == ["broke", "element 1: reward is not finite"]
    np.testing.assert_array_equal(refused.steps["reward"], bad.take([0, 2]).steps["reward"])
    assert len(run(GOOD).refused_rows) == 0


def test_repetition_is_counted_but_not_kept_beside_its_twin() -> None:
    verified = run(GOOD.take([0, 1, 1]))
    assert [refusal.reason for refusal in verified.refused] == ["duplicate"]
    assert len(verified.refused_rows) == 0
