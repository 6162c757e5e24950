"""Networks and language models in one population: they join, meet in both seats, and share a table."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus import parse_config
from ludus.errors import ConfigError
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyRef
from ludus.runs.population import PopulationRun
from ludus.runs.population.population_state import PopulationState
from ludus.storage.arrow import episodes_from_table
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl
from ludus.storage.segment_reader import SegmentReader

GAMES = 6
CONFIG = f"""
name: mixed
games: [open_spiel:kuhn_poker]
topology: split
policy: {{network: {{kind: mlp, hidden: [8]}}}}
explore: {{games_in_flight: 16}}
train: {{steps: 100, batch_episodes: 32, minibatch: 32, epochs: 1}}
population:
  oracle: learned
  meta_solver: uniform
  payoffs: {{games: {GAMES}}}
  stop: {{generations: 1, nash_conv: null}}
  learners:
    words:
      changes:
        policy: {{model: {{path: MODEL, lora: {{rank: 2}}}}}}
        explore: {{prompt: {{template: bare, invalid_reward: -2.0}}, sampling: {{max_tokens: 4}}}}
        train: {{steps: 200, minibatch: 16}}
telemetry: {{tensorboard: false, every_s: 0}}
"""


def config_text(model: Path, generations: int = 1) -> str:
    text = CONFIG.replace("MODEL", str(model))
    return text.replace("generations: 1", f"generations: {generations}")


def state_of(run: Path) -> dict[str, Any]:
    saved = CheckpointStore(run / "checkpoints", keep=2).latest()
    assert saved is not None
    state: dict[str, Any] = saved.state["population"]
    return {name: value for name, value in state.items() if name != "cpu_s"}


class KeepingLearners(PopulationRun):
    """Leaves the runs of learners where they are, so that one can look into them."""

    def _clear_away(self, rooms: Any, state: Any) -> None:
        pass


def run_population(text: str, run: Path) -> Path:
    status = KeepingLearners(parse_config(text, "mixed.yaml"), run).run_to_end()
    assert status.stage == "done", status.error
    return run


@pytest.fixture(scope="module")
def generation(poker_speaker: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One generation of both kinds. Read only."""
    return run_population(config_text(poker_speaker), tmp_path_factory.mktemp("runs") / "one")


@pytest.fixture(scope="module")
def whole(poker_speaker: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two generations that nobody disturbed. Read only."""
    return run_population(config_text(poker_speaker, 2), tmp_path_factory.mktemp("runs") / "whole")


def check_table(run: Path, names: list[str]) -> None:
    """One pool, one table, one meta-strategy, with everybody in them."""
    state = PopulationState.from_json({**state_of(run), "cpu_s": 0.0})
    assert list(state.table.populations.names[0]) == names
    games = state.table.games()
    assert np.array_equal(games, GAMES * (1 - np.eye(len(names), dtype=int)))
    assert np.isfinite(state.table.mean()).all()
    assert state.history[-1]["shares"] == [[[name, pytest.approx(1 / len(names))] for name in names]]
    ladder = CheckpointStore(run / "checkpoints", keep=2).latest()
    assert ladder is not None
    assert set(names[1:]) <= {row["ref"] for row in ladder.state["league"]["members"]}
    events = {line["event"] for line in read_jsonl(run / "events.jsonl")}
    assert not events & {"match_failed", "episode_failed", "worker_lost"}


def test_both_kinds_join_one_pool_and_one_table(generation: Path) -> None:
    check_table(generation, ["random", "main@1", "words@1"])
    store = PolicyStore(generation / "policies")
    assert isinstance(store.shape(PolicyRef.parse("main@1")), PolicyShape)
    assert isinstance(store.shape(PolicyRef.parse("words@1")), LanguageModelShape)
    adapter = store.load(PolicyRef.parse("words@1")).weights
    assert any("lora_B" in name and np.any(tensor) for name, tensor in adapter.items())


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_both_kinds_meet_on_ray_with_the_same_table(poker_speaker: Path, generation: Path, tmp_path: Path) -> None:
    run = run_population(f"{config_text(poker_speaker)}runtime: ray\n", tmp_path / "ray")
    check_table(run, ["random", "main@1", "words@1"])
    for name in ("main@1", "words@1"):
        ref = PolicyRef.parse(name)
        assert PolicyStore(run / "policies").weights_hash(ref) == PolicyStore(generation / "policies").weights_hash(ref)
    assert state_of(run)["table"] == state_of(generation)["table"]


@pytest.mark.slow
def test_each_kind_learns_against_the_other_in_both_seats(whole: Path) -> None:
    check_table(whole, ["random", "main@1", "words@1", "main@2", "words@2"])
    for learner, other in (("main-2", "words"), ("words-2", "main")):
        tables = [table for _, table in SegmentReader(whole / "learners" / learner / "episodes").scan()]
        episodes = [episode for table in tables for episode in episodes_from_table(table)]
        assert not any(episode.error for episode in episodes)
        met = {(seat.policy.name, place) for episode in episodes for place, seat in enumerate(episode.task.seats)}
        assert {(other, 0), (other, 1), ("random", 0), ("random", 1), ("learner", 0), ("learner", 1)} <= met
        talks = [each for each in episodes if any(seat.policy.name == other for seat in each.task.seats)]
        assert all(episode.replies and all(episode.move_actions) for episode in talks)


def test_kinds_that_cannot_meet_are_refused_before_anything_is_written(poker_speaker: Path, tmp_path: Path) -> None:
    text = config_text(poker_speaker)
    wrong = {
        "topology: main learns in fused": text.replace("topology: split", "topology: fused"),
        "population.payoffs.kind: what a language model does": text.replace("games: 6", "kind: exact"),
        "population.learners.words: .*no-such-model": text.replace(str(poker_speaker), "models/no-such-model"),
        "population.learners.words: policy.start: runs/none is not a run": text.replace(
            "policy: {model:", "policy: {start: runs/none, model:"
        ),
        "population.learners.more: explore.prompt: is another": f"{text}".replace(
            "telemetry:",
            f"    more: {{changes: {{policy: {{model: {{path: {poker_speaker}, lora: {{rank: 2}}}}}}}}}}\ntelemetry:",
        ),
    }
    for message, broken in wrong.items():
        if "fused" in message:
            broken = broken.replace("batch_episodes: 32", "batch_steps: 64")
            broken = broken.replace(
                "train: {steps: 200", "topology: split\n        train: {batch_steps: null, steps: 200"
            )
        with pytest.raises(ConfigError, match=message):
            PopulationRun(parse_config(broken, "mixed.yaml"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_killed_population_of_both_kinds_ends_with_the_same_table(
    whole: Path, poker_speaker: Path, tmp_path: Path
) -> None:
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
    from killing import Moment, run_through

    path = tmp_path / "mixed.yaml"
    path.write_text(config_text(poker_speaker, 2))
    moments = [Moment(event="assignment", more=2, within_s=6.0), Moment(event="joined", more=2, within_s=4.0)]
    run_through(path, tmp_path / "broken", moments, seed=5)
    ours, theirs = state_of(tmp_path / "broken"), state_of(whole)
    for state in (ours, theirs):
        for entry in state["history"]:
            entry["metrics"].pop("psro/cpu_s")
    assert json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)
    stores = [PolicyStore(run / "policies") for run in (tmp_path / "broken", whole)]
    for name in ("main", "words"):
        hashes = [[store.load(ref).weights_hash for ref in store.versions(name)] for store in stores]
        assert hashes[0] == hashes[1]
