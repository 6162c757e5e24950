"""Recorded games become boards, whatever back end played them; what cannot be replayed says so."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.games import make_game
from ludus.games.board_frames import board_kind, replay_game
from ludus.records import Episode, EpisodeId, PolicyName, PolicyRef, Seat, Task, TaskId


def played(key: str, seed: int = 5, recorded_as: str = "") -> Episode:
    random, task_seed = np.random.default_rng(seed), 11
    seats = tuple(Seat(policy=PolicyRef(name=PolicyName(f"p{seat}"))) for seat in range(2))
    task = Task(id=TaskId(0), game=recorded_as or key, seed=task_seed, seats=seats)
    position, turns = make_game(key).start(task.game_seed), []
    while acting := position.acting():
        move = int(random.choice(position.legal(acting[0])))
        turns.append((len(turns), acting[0], move))
        position.act({acting[0]: move})
    plies, movers, actions = np.array(turns, np.int32).T
    return Episode(
        id=EpisodeId("e"),
        task=task,
        returns=tuple(position.returns()),
        move_plies=plies,
        move_seats=movers.astype(np.int16),
        move_actions=actions,
    )


@pytest.mark.parametrize(
    ("key", "kind", "size"),
    [
        ("open_spiel:connect_four", "connect_four", (6, 7)),
        ("open_spiel:tic_tac_toe", "tic_tac_toe", (3, 3)),
        ("open_spiel:othello", "othello", (8, 8)),
        ("open_spiel:go(board_size=5)", "go", (5, 5)),
        ("open_spiel:chess", "chess", (8, 8)),
    ],
)
def test_every_move_of_a_board_game_gives_a_board(key: str, kind: str, size: tuple[int, int]) -> None:
    episode = played(key)
    replay = replay_game(episode)
    assert (replay.kind, (replay.rows, replay.columns), replay.problem) == (kind, size, "")
    assert len(replay.frames) == episode.length + 1
    assert {len(frame.cells) for frame in replay.frames} == {size[0] * size[1]}
    assert replay.frames[0].moves == ()
    assert replay.frames[1].moves[0][:2] == (int(episode.move_seats[0]), int(episode.move_actions[0]))
    assert all(frame.cells != after.cells for frame, after in zip(replay.frames[:3], replay.frames[1:], strict=False))


def test_a_stone_is_where_it_was_put() -> None:
    replay = replay_game(played("open_spiel:connect_four"))
    (_, column, _) = replay.frames[1].moves[0]
    assert replay.frames[1].cells[5 * 7 + column] == "x"
    assert replay.frames[1].cells.count(".") == 41


def test_a_game_of_pgx_is_drawn_by_its_twin() -> None:
    episode = played("open_spiel:connect_four", recorded_as="pgx:connect_four")
    assert replay_game(episode).kind == board_kind("pgx:connect_four") == "connect_four"


def test_other_games_are_text() -> None:
    replay = replay_game(played("open_spiel:breakthrough"))
    assert replay.kind == board_kind("open_spiel:breakthrough") == "text"
    assert all(frame.text and not frame.cells for frame in replay.frames)


def test_what_cannot_be_replayed_is_named() -> None:
    broken = played("open_spiel:tic_tac_toe", recorded_as="open_spiel:no_such_game")
    assert "cannot be made here" in replay_game(broken).problem
    illegal = played("open_spiel:connect_four", recorded_as="open_spiel:tic_tac_toe")
    assert replay_game(illegal).problem
