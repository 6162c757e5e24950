"""Measures without an opponent: exploitability as OpenSpiel computes it, moves as a solver judges them."""

from __future__ import annotations

import msgspec
import numpy as np
import pyspiel
import pytest
from open_spiel.python import policy as spiel_policy
from open_spiel.python.algorithms import exploitability

from ludus.cli.summary import absolute_lines
from ludus.config import MlpConfig
from ludus.errors import ConfigError
from ludus.explore.players.fixed import make_player
from ludus.games import make_game
from ludus.games.connect_four_solver import ConnectFourSolver
from ludus.league.exact.nash_conv import NetworkNashConv
from ludus.orchestrator.absolute_measures import MoveJudge
from ludus.orchestrator.evaluation import Job
from ludus.policies import PolicyShape
from ludus.records import Episode, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId, episode_id

MAIN = PolicyRef(name=PolicyName("main"), version=PolicyVersion(3))
SOLVER = PolicyRef(name=PolicyName("solver"))
GAME = "open_spiel:connect_four"


@pytest.mark.parametrize("name", ["kuhn_poker", "kuhn_poker(players=3)"])
def test_nash_conv_of_a_network_is_what_open_spiel_computes(name: str) -> None:
    spec = make_game(f"open_spiel:{name}").spec
    shape = PolicyShape(
        network=MlpConfig(hidden=(8,)),
        observation_shape=spec.observation_shape,
        actions=spec.actions,
        layout=spec.layout,
        games=(spec.key,),
    )
    network = shape.build()
    rng = np.random.default_rng(0)
    weights = {key: rng.normal(size=value.shape).astype(np.float32) for key, value in network.init(0).items()}
    game = pyspiel.load_game(name)

    class Asked(spiel_policy.Policy):  # type: ignore[misc]
        """Asks the network in every state anew."""

        def action_probabilities(self, state, player_id=None):  # type: ignore[no-untyped-def]
            seen = np.array(state.information_state_tensor(), np.float32).reshape(1, *spec.observation_shape)
            logits = np.asarray(network.apply(weights, seen)[0][0], np.float64)[state.legal_actions()]
            shares = np.exp(logits - logits.max())
            return dict(zip(state.legal_actions(), shares / shares.sum(), strict=True))

    wanted = exploitability.nash_conv(game, Asked(game, list(range(game.num_players()))))
    assert wanted > 0.1
    assert NetworkNashConv(name, most_histories=10_000).nash_conv(weights, shape) == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(ConfigError, match="histories"):
        NetworkNashConv(name, most_histories=10).nash_conv(weights, shape)


def job_of(*games: list[int]) -> Job:
    """A final evaluation in which main moved first in each of these games."""
    job = Job(number=0, learner=MAIN, opponents=(SOLVER,), games=1, step=0, is_final=True)
    for number, moves in enumerate(games):
        task = Task(id=TaskId(number), game=GAME, seed=0, seats=(Seat(policy=MAIN), Seat(policy=SOLVER)))
        job.played[number] = Episode(
            id=episode_id("run", task.id, 0),
            task=task,
            returns=(0.0, 0.0),
            move_plies=np.arange(len(moves), dtype=np.int32),
            move_seats=np.arange(len(moves), dtype=np.int16) % 2,
            move_actions=np.array(moves, np.int32),
        )
    return job


def test_a_move_counts_where_it_matters_and_only_if_it_keeps_the_outcome() -> None:
    # The first player wins from the middle column alone. 0 gives a loss; then 3 wins for the second, and so on.
    metrics = MoveJudge(GAME, "evaluate").measure(job_of([3], [0, 3], [3, 0], [2]))
    assert metrics["evaluate/optimal_moves"] == 0.5
    assert metrics["evaluate/judged_positions"] == 4
    assert metrics["evaluate/solver/judged_positions"] == 1, "after the middle column every reply loses"
    assert absolute_lines(metrics)[0].startswith("outcome-preserving moves of the final policy: 50.0%")


def test_games_against_past_versions_are_not_judged_since_the_policy_samples_there() -> None:
    job = job_of([0])
    past = PolicyRef(name=MAIN.name, version=PolicyVersion(1))
    job.opponents = (past,)
    task = Task(id=TaskId(0), game=GAME, seed=0, seats=(Seat(policy=MAIN), Seat(policy=past)))
    job.played[0] = msgspec.structs.replace(job.played[0], task=task)
    assert MoveJudge(GAME, "evaluate").measure(job) == {}


def test_only_final_evaluations_are_judged() -> None:
    job = job_of([3])
    job.is_final = False
    assert MoveJudge(GAME, "evaluate").measure(job) == {}


def test_both_of_the_solvers_answers_agree() -> None:
    solver, rng = ConnectFourSolver(), np.random.default_rng(1)
    state = pyspiel.load_game("connect_four").new_initial_state()
    while not state.is_terminal():
        if not 10 <= len(state.history()) <= 20:
            outcomes, values = solver.outcomes(state.history()), solver.values(state.history())
            assert outcomes == {column: int(np.sign(value)) for column, value in values.items()}
        state.apply_action(int(rng.choice(state.legal_actions())))


@pytest.mark.parametrize("key", ["open_spiel:connect_four", "pgx:connect_four"])
def test_the_solver_wins_from_the_first_seat(key: str) -> None:
    game, rng = make_game(key), np.random.default_rng(0)
    position, players = game.start(0), (make_player("solver", game), make_player("random", game))
    while position.acting():
        (seat,) = position.acting()
        position.act({seat: players[seat].choose(position, seat, rng)})
    assert position.returns()[0] == 1.0


def test_the_solver_refuses_other_games() -> None:
    with pytest.raises(ConfigError, match="it plays open_spiel:connect_four"):
        make_player("solver", make_game("open_spiel:tic_tac_toe"))
