"""Networks that search before they move: found mates, independence of company, evaluations and matches with nodes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ludus_chess", reason="the native part of chess is not built")

from ludus_chess import Board

from ludus import parse_config
from ludus.chess.game import ChessGame, ChessPosition
from ludus.chess.network_search import ChessNetworkSearch
from ludus.chess.network_source import chess_shape
from ludus.config.sections.chess import ChessResidualConfig
from ludus.errors import ConfigError
from ludus.explore.actors import NetworkActors
from ludus.explore.players.fixed import make_player
from ludus.explore.runners.host_runner import HostRunner
from ludus.explore.runners.search_decisions import SearchDecisions
from ludus.orchestrator.check_parts import check_parts
from ludus.policies import PolicyStore
from ludus.records import Episode, PolicyName, PolicyRef, PolicyVersion, Seat, Task, TaskId
from ludus.runtime import Pulse
from ludus.storage.arrow import episodes_from_bytes, episodes_from_table, episodes_to_bytes, episodes_to_table

MAIN = PolicyRef(name=PolicyName("main"), version=PolicyVersion(1))
RANDOM = PolicyRef(name=PolicyName("random"))
CONFIG = """
name: chess
games: [chess:standard]
topology: split
mode: train
policy: {network: {kind: chess_residual, blocks: 1, filters: 8, squeeze: 4}}
buffer: {loader: {kind: chess_chunks, options: {directory: DIRECTORY, input_format: FORMAT}}}
cycle: {new_sequences: 6, updates: 2, export: null}
train: {updates: 4, minibatch: 16, epochs: 1, algorithm: {preset: chess}}
evaluate: {against: [], held_out_games: [{key: "chess:openings", against: [random], nodes: 8}]}
"""
SCHOLAR = ("e2e4", "e7e5", "d1h5", "b8c6", "f1c4", "g8f6")
"""White mates in one."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> PolicyStore:
    found = PolicyStore(tmp_path_factory.mktemp("policies"))
    shape = chess_shape(ChessResidualConfig(kind="chess_residual", blocks=1, filters=8, squeeze=4))
    found.publish(MAIN, {name: np.asarray(each) for name, each in shape.build().init(3).items()}, shape, step=0)
    return found


def position(*moves: str) -> ChessPosition:
    found = ChessPosition()
    for number, move in enumerate(moves):
        found.act({number % 2: found.from_uci(move)})
    return found


def chosen(search: ChessNetworkSearch, *positions: ChessPosition, nodes: int, greedy: bool = True) -> list[int]:
    uniform = np.array([(0.37 * len(each.uci_position()[1])) % 1.0 for each in positions], np.float32)
    return search.choose(MAIN, positions, nodes=nodes, uniform=uniform, greedy=np.full(len(positions), greedy))


def test_a_search_finds_the_mate_that_an_untrained_policy_does_not_see(store: PolicyStore) -> None:
    search, mated = ChessNetworkSearch(store, input_format=1), position(*SCHOLAR)
    assert mated.action_text(0, chosen(search, mated, nodes=200)[0]) == "Qxf7#"
    assert mated.action_text(0, chosen(search, mated, nodes=1)[0]) != "Qxf7#"
    shares, value = search.think(MAIN, mated, nodes=200)
    assert max(shares, key=lambda action: shares[action]) == chosen(search, mated, nodes=200)[0]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert value > 0.5


@pytest.mark.parametrize("greedy", [True, False])
def test_a_move_does_not_depend_on_the_games_beside_it(store: PolicyStore, greedy: bool) -> None:
    search = ChessNetworkSearch(store, input_format=1)
    game = ChessGame("openings")
    many = [game.start(seed) for seed in range(21)]
    together = chosen(search, *many, nodes=24, greedy=greedy)
    assert together == [chosen(search, each, nodes=24, greedy=greedy)[0] for each in many]
    assert len(set(together)) > 5


def test_with_one_node_the_policy_decides_as_without_a_search(store: PolicyStore) -> None:
    game, actors = ChessGame("openings"), NetworkActors(store)
    search = ChessNetworkSearch(store, input_format=1)
    assert not search.decides(1)
    for seed in range(8):
        start = game.start(seed)
        planes, legal = np.zeros((1, 112, 8, 8), np.float32), np.zeros((1, 1858), np.bool_)
        start.observe(0, planes[0])
        legal[0, start.legal(0)] = True
        decided = actors.act(MAIN, planes, legal, np.zeros(1, np.float32), np.ones(1, np.bool_))
        assert chosen(search, start, nodes=1) == decided.actions.tolist()


def test_networks_of_other_planes_are_shown_theirs(store: PolicyStore) -> None:
    """Their policy alone, too, is not asked with the planes that the game writes."""
    plain, hectoplies = (ChessNetworkSearch(store, input_format=number) for number in (1, 4))
    assert hectoplies.decides(1)
    castled = position("e2e4", "e7e5", "g1f3", "b8c6", "f1c4", "f8c5", "e1g1", "g8f6")
    assert plain.think(MAIN, castled, nodes=1) != hectoplies.think(MAIN, castled, nodes=1)


def play(store: PolicyStore, config: Any, nodes: int, games: int = 4) -> list[Episode]:
    pulse, game = Pulse(), ChessGame("openings")
    runner = HostRunner(
        run="test",
        games=lambda _: game,
        actors=NetworkActors(store),
        players=lambda name, game: None if name == "main" else make_player(name, game),
        slots=games,
        max_length=12,
        pulse=pulse,
        searches=SearchDecisions(store, config, pulse),
    )
    ours, theirs = Seat(policy=MAIN, greedy=True, nodes=nodes), Seat(policy=RANDOM)
    seats = (ours, theirs), (theirs, ours)
    runner.submit(
        Task(id=TaskId(number), game="chess:openings", seed=number, seats=seats[number % 2], purpose="evaluate")
        for number in range(games)
    )
    while not runner.is_idle:
        runner.step()
    return list(runner.harvest().episodes)


@pytest.fixture
def config(tmp_path: Path) -> Any:
    return parse_config(CONFIG.replace("DIRECTORY", str(tmp_path)).replace("FORMAT", "1"), "chess.yaml")


def test_an_explorer_searches_where_a_seat_has_nodes(store: PolicyStore, config: Any) -> None:
    alone, searching = play(store, config, 1), play(store, config, 16)
    assert not any(episode.error for episode in (*alone, *searching))
    assert [each.move_actions.tolist() for each in searching] == [
        each.move_actions.tolist() for each in play(store, config, 16)
    ]
    assert [each.move_actions.tolist() for each in searching] != [each.move_actions.tolist() for each in alone]


def test_a_version_that_is_gone_costs_its_games_alone(store: PolicyStore, config: Any, tmp_path: Path) -> None:
    episodes = play(PolicyStore(tmp_path), config, 16)
    assert len(episodes) == 4
    assert all(episode.error.startswith("DamagedPolicy: main@1 cannot be loaded") for episode in episodes)


def test_the_log_says_with_how_many_nodes_a_seat_played(store: PolicyStore, config: Any) -> None:
    episodes = play(store, config, 16, games=2)
    assert episodes_from_bytes(episodes_to_bytes(episodes))[0].task == episodes[0].task
    assert [seat.label for seat in episodes[0].task.seats] == ["main@1 (greedy, 16 nodes)", "random@0"]
    older = episodes_to_table(episodes).drop_columns(["nodes"])
    assert [seat.nodes for seat in episodes_from_table(older)[0].task.seats] == [1, 1]


def test_nodes_at_a_game_without_a_search_are_refused(tmp_path: Path) -> None:
    text = CONFIG.replace("DIRECTORY", str(tmp_path)).replace("FORMAT", "1")
    check_parts(parse_config(text, "chess.yaml"))
    text = "name: a\ngames: [open_spiel:tic_tac_toe]\nevaluate: {held_out_games: [{key: 'pgx:tic_tac_toe', nodes: 8}]}"
    with pytest.raises(ConfigError, match=r"pgx:tic_tac_toe: no search for its networks; leave nodes out"):
        check_parts(parse_config(text, "run.yaml"))


def test_the_board_that_is_searched_is_a_copy(store: PolicyStore) -> None:
    start = position()
    chosen(ChessNetworkSearch(store, input_format=1), start, nodes=8)
    assert start.board.fen() == Board().fen()
