"""A generation of several learners that was stopped half-way goes on with the parts that it was given."""

from pathlib import Path

import pytest

from ludus import parse_config
from ludus.league.matchmaking.population import LineUps
from ludus.league.schedulers import Assignment
from ludus.records import PolicyRef
from ludus.runs.population import PopulationRun
from ludus.runs.population.population_state import PopulationState
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl

CONFIG = """
name: two
games: [open_spiel:kuhn_poker]
topology: fused
policy: {network: {kind: mlp, hidden: [8]}}
explore: {games_in_flight: 32}
train: {steps: 1024, batch_steps: 512, minibatch: 512, epochs: 1}
telemetry: {tensorboard: false}
population:
  oracle: learned
  scheduler: self_play
  at_once: 1
  learners: {other: {changes: {train: {steps: 2048}}}}
  stop: {generations: 2, nash_conv: null}
"""


class Stopping:
    """Stops a population when the third policy joins: the first of two of the second generation."""

    loop: PopulationRun
    joined = 0

    def metrics(self, step: int, values: dict[str, float]) -> None:
        pass

    def event(self, kind: str, fields: dict[str, object]) -> None:
        self.joined += kind == "joined"
        if self.joined == 3:
            self.loop.stop()

    def close(self) -> None:
        pass


def last_state(run: Path) -> PopulationState:
    saved = CheckpointStore(run / "checkpoints", keep=2).latest()
    assert saved is not None
    return PopulationState.from_json(saved.state["population"])


@pytest.mark.slow
def test_learners_that_have_not_begun_get_the_same_part_after_a_stop(tmp_path: Path) -> None:
    stopping = Stopping()
    stopping.loop = PopulationRun(parse_config(CONFIG, "two.yaml"), tmp_path / "two", sinks=[stopping])
    assert stopping.loop.run_to_end().stage == "stopped"
    half = last_state(tmp_path / "two")
    assert half.done == ["main-2"]
    assert [each.learner for each in half.assignments] == ["main-2", "other-2"]
    assert PopulationRun(parse_config(CONFIG, "two.yaml"), tmp_path / "two").run_to_end().stage == "done"
    given = [event for event in read_jsonl(tmp_path / "two" / "events.jsonl") if event["event"] == "assignment"]
    opponents = {event["learner"]: event["opponents"]["others"] for event in given}
    # In self-play both answer the newest of the generation before, and not each other.
    assert opponents["main-2"] == opponents["other-2"] == [["other@1", 1.0]]
    assert {event["learner"]: event["until"] for event in given}["other-2"] == 2048
    whole = last_state(tmp_path / "two")
    assert list(whole.table.populations.names[0]) == ["random", "main@1", "other@1", "main@2", "other@2"]
    assert whole.assignments == ()


def test_assignments_come_back_as_they_were_saved() -> None:
    others = LineUps.of_others([(PolicyRef.parse("main@1"), 3.0), (PolicyRef.parse("words@2"), 1.0)])
    for begins_with in (None, PolicyRef.parse("words@2")):
        given = Assignment(
            agent="words", learner="words-3", generation=3, opponents=others, until=7, begins_with=begins_with
        )
        assert Assignment.from_json(given.to_json()) == given
