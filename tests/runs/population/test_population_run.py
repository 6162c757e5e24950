"""A population that learns, as a run: it gets less exploitable, goes on where it was, and everything is in one table."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus import SingleRun, parse_config
from ludus.errors import TrainError
from ludus.games.sequence_form_building import build_sequence_form, load_turn_based, to_open_spiel
from ludus.games.tabulating import tabulate
from ludus.league.exact.network_policies import NetworkPolicies
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import PolicyRef
from ludus.runs.driver import Status
from ludus.runs.population import PopulationRun
from ludus.runs.population.measures import Measures
from ludus.runs.population.population_state import PopulationState
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.jsonl import read_jsonl

KUHN = """
name: small
games: [open_spiel:kuhn_poker]
topology: fused
policy: {network: {kind: mlp, hidden: [16, 16]}}
explore: {games_in_flight: 64}
train: {steps: 40_000, batch_steps: 2048, minibatch: 512, epochs: 2, optimizer: {learning_rate: 0.01}}
telemetry: {tensorboard: false}
population: {oracle: learned, at_once: 1, stop: {generations: 4, nash_conv: null}}
"""


def run(path: Path, text: str = KUHN, *overrides: tuple[str, str]) -> Status:
    for old, new in overrides:
        assert old in text
        text = text.replace(old, new)
    return PopulationRun(parse_config(text, "small.yaml"), path).run_to_end()


def saved(path: Path) -> dict[str, Any]:
    """What the newest checkpoint says, but for the time that it took."""
    newest = CheckpointStore(path / "checkpoints", keep=3).latest()
    assert newest is not None
    state: dict[str, Any] = json.loads(json.dumps(newest.state))
    state["population"].pop("cpu_s")
    for entry in state["population"]["history"]:
        entry["metrics"].pop("psro/cpu_s")
    return state


def weights(path: Path) -> dict[str, str]:
    store = PolicyStore(path / "policies")
    return {str(ref): store.load(ref).weights_hash for name in store.names() for ref in store.versions(name)}


@pytest.fixture(scope="module")
def kuhn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished population. Read only."""
    path = tmp_path_factory.mktemp("runs") / "kuhn"
    assert run(path).stage == "done"
    return path


def test_its_metrics_are_explained_and_those_that_are_promised_are_there(kuhn: Path, check_promises: Any) -> None:
    check_promises("population", kuhn)


def test_answers_join_and_the_mixture_gets_less_exploitable(kuhn: Path) -> None:
    curve = [line["psro/nash_conv"] for line in read_jsonl(kuhn / "metrics.jsonl") if "psro/nash_conv" in line]
    assert len(curve) == 5
    assert curve[0] == pytest.approx(11 / 12)
    assert min(curve) < 0.5
    assert sorted(weights(kuhn)) == ["main@1", "main@2", "main@3", "main@4"]
    assert list((kuhn / "learners").iterdir()) == []


def test_nash_conv_is_what_open_spiel_computes_for_the_mixture(kuhn: Path) -> None:
    from open_spiel.python.algorithms import exploitability

    state = PopulationState.from_json(saved_whole(kuhn))
    form, tree, store = build_sequence_form("kuhn_poker"), tabulate("kuhn_poker"), PolicyStore(kuhn / "policies")
    mixed = [np.zeros(seat.sequences) for seat in form.seats]
    for ref, share in zip(state.seats[0], state.joint.sum(axis=1), strict=True):
        plans = _plans(form, tree, store, ref)
        mixed = [have + share * plan for have, plan in zip(mixed, plans, strict=True)]
    policies = [seat.policy_of(plan) for seat, plan in zip(form.seats, mixed, strict=True)]
    table = to_open_spiel(form, policies)
    theirs = exploitability.nash_conv(load_turn_based("kuhn_poker"), table)
    assert state.history[-1]["metrics"]["psro/nash_conv"] == pytest.approx(theirs, abs=1e-6)


def saved_whole(path: Path) -> Any:
    newest = CheckpointStore(path / "checkpoints", keep=3).latest()
    assert newest is not None
    return newest.state["population"]


def _plans(form: Any, tree: Any, store: PolicyStore, ref: PolicyRef) -> Any:
    if ref.version == 0:
        return [seat.plan_of(seat.policy_of_choices(np.ones(seat.sequences, bool))) for seat in form.seats]
    policy = store.load(ref, PolicyShape)
    return NetworkPolicies(form, tree, policy.shape).plans(policy.weights)


def test_a_population_that_is_stopped_in_mid_generation_goes_on_to_the_same_end(kuhn: Path, tmp_path: Path) -> None:
    for updates in (3, 12, 25):  # in the first, the second and the third generation
        loop = PopulationRun(parse_config(KUHN, "small.yaml"), tmp_path / "broken")
        loop.start()
        deadline = time.monotonic() + 60
        while loop.status().metrics.get("psro/learner_steps", 0.0) < updates * 100 and time.monotonic() < deadline:
            if loop.status().is_over:
                break
            time.sleep(0.01)
        loop.stop()
        assert loop.wait().stage in ("stopped", "done")
    assert run(tmp_path / "broken").stage == "done"
    assert saved(tmp_path / "broken") == saved(kuhn)
    assert weights(tmp_path / "broken") == weights(kuhn)


class StoppedWhileMeasuring(PopulationRun):
    """Is asked to stop when half of the second generation's matches are counted."""

    def _make_measures(self, *parts: Any) -> Measures:
        measures, stop = super()._make_measures(*parts), self.stop

        class Interrupted:
            is_exact = True
            exploitability = staticmethod(measures.exploitability)

            def fill(self, state: PopulationState) -> bool:
                if state.generation == 0:
                    return measures.fill(state)
                state.jobs += 1
                state.book.add("main@1", "random", 1.0)
                stop()
                return False

        return Interrupted()


@pytest.mark.slow
def test_what_was_measured_by_half_when_the_run_was_stopped_is_measured_again(kuhn: Path, tmp_path: Path) -> None:
    loop = StoppedWhileMeasuring(parse_config(KUHN, "small.yaml"), tmp_path / "broken")
    assert loop.run_to_end().stage == "stopped"
    assert run(tmp_path / "broken").stage == "done"
    assert saved(tmp_path / "broken")["population"] == saved(kuhn)["population"]


def test_a_learner_that_fails_ends_the_others_and_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: SingleRun, context: Any) -> Any:
        if "seat_0" in self.config.name:
            raise TrainError("it does not learn")
        return original(self, context)

    original = SingleRun._prepare
    monkeypatch.setattr(SingleRun, "_prepare", fail)
    text = KUHN.replace("at_once: 1", "at_once: 2, shared: false")
    loop = PopulationRun(parse_config(text, "small.yaml"), tmp_path / "run")
    with pytest.raises(TrainError, match="it does not learn"):
        loop.run_to_end()
    assert not [thread for thread in threading.enumerate() if thread.name == "loop"]


@pytest.mark.slow
def test_learners_side_by_side_come_to_the_same(kuhn: Path, tmp_path: Path) -> None:
    by_seat = ("oracle: learned,", "oracle: learned, shared: false,")
    short = (by_seat, ("generations: 4", "generations: 2"), ("40_000", "10_000"))
    assert run(tmp_path / "one", KUHN, *short).stage == "done"
    assert run(tmp_path / "two", KUHN, *short, ("at_once: 1", "at_once: 2")).stage == "done"
    assert sorted(weights(tmp_path / "one")) == ["seat_0@1", "seat_0@2", "seat_1@1", "seat_1@2"]
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    one, two = saved(tmp_path / "one")["population"], saved(tmp_path / "two")["population"]
    assert one == two


@pytest.mark.slow
def test_a_population_goes_on_for_more_generations(tmp_path: Path) -> None:
    few = ("generations: 4", "generations: 1")
    assert run(tmp_path / "run", KUHN, few).steps == 1
    assert run(tmp_path / "run", KUHN, ("generations: 4", "generations: 2")).steps == 2


def test_inherited_weights_are_in_the_lineage(tmp_path: Path) -> None:
    overrides = (
        ("oracle: learned,", "oracle: learned, initialise: inherit_last,"),
        ("generations: 4", "generations: 2"),
    )
    assert run(tmp_path / "run", KUHN, *overrides).stage == "done"
    roster = saved(tmp_path / "run")["population"]["roster"]
    assert [row["parent"] for row in roster] == [None, "main@1"]


def test_a_learner_that_wins_enough_stops_early(tmp_path: Path) -> None:
    stop = ("optimizer:", "stop: {score: 0.45, updates: 3}, optimizer:")
    assert run(tmp_path / "run", KUHN, stop, ("generations: 4", "generations: 1")).stage == "done"
    (row,) = saved(tmp_path / "run")["population"]["roster"]
    assert 3 * 2048 <= row["steps"] < 40_000
    assert any(event["event"] == "learnt_enough" for event in read_jsonl(tmp_path / "run" / "events.jsonl"))
