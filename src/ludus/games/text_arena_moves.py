"""Legal moves of TextArena's games, read from their state, as a seat writes them.

Invariant: what a function lists is accepted by TextArena, and any other move of the same form is refused; tests try
every one. Add a game to `LEGAL_MOVES`, with a function from its environment, its state and the acting seat to its
moves. Games with free speech or amounts without bound cannot be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

FILES = "abcdefghijklmnopqrstuvwxyz"
DIRECTIONS = ("up", "down", "left", "right")
NEIGHBOURS = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if row or column]

Lister = Callable[[Any, Any, int], Iterable[object]]
"""Of an environment, its `game_state` and the acting seat: the legal moves, without the brackets around each."""


def legal_moves(name: str, env: Any) -> list[str] | None:
    """The legal moves of whoever acts, as TextArena reads them; None where a game's moves cannot be listed."""
    if (lister := LEGAL_MOVES.get(name)) is None:
        return None
    return [f"[{move}]" for move in lister(env, env.state.game_state, env.state.current_player_id)]


def _always(*moves: str) -> Lister:
    return lambda env, game, seat: moves


def _empty_cells(env: Any, game: Any, seat: int) -> list[int]:
    board, width = game["board"], len(game["board"][0])
    return [row * width + column for row in range(len(board)) for column in range(width) if board[row][column] == ""]


def _ultimate_tic_tac_toe(env: Any, game: Any, seat: int) -> Iterable[str]:
    forced = game["next_micro_board"]
    boards = range(9) if forced is None else [forced]
    is_open = [game["macro_board"][board // 3][board % 3] == " " for board in range(9)]
    cells = [(board, cell) for board in boards if is_open[board] for cell in range(9)]
    return (f"{board} {cell}" for board, cell in cells if game["board"][board][cell // 3][cell % 3] == " ")


def _indian_poker(env: Any, game: Any, seat: int) -> Iterable[str]:
    chips = game["player_chips"][seat]
    if chips < 0:  # the ante was more than there was: TextArena refuses everything
        return []
    to_call = game["highest_bet"] - game["current_bets"][seat]
    if to_call == 0:
        return ["check", "fold", *(f"bet {amount}" for amount in range(1, chips + 1))]
    calls = ["call"] if to_call <= chips else []
    return [*calls, "fold", *(f"raise {amount}" for amount in range(1, chips - to_call + 1))]


def _chopsticks(env: Any, game: Any, seat: int) -> Iterable[str]:
    mine, others = game["hands"][seat], game["hands"][1 - seat]
    attacks = [f"attack {own} {other}" for own in (0, 1) for other in (0, 1) if mine[own] and others[other]]
    splits = [(left, sum(mine) - left) for left in range(sum(mine) + 1)]
    return [*attacks, *(f"split {left} {right}" for left, right in splits if [left, right] != mine)]


def _othello(env: Any, game: Any, seat: int) -> Iterable[str]:
    moves = env._valid_moves("B" if seat == 0 else "W")
    return [f"{row}, {column}" for row, column in moves] or ["skip"]


def _breakthrough(env: Any, game: Any, seat: int) -> Iterable[str]:
    size, ahead = env.board_size, 1 if seat == 0 else -1
    steps = [
        (row, column, row + ahead, column + side)
        for row in range(size)
        for column in range(size)
        for side in (-1, 0, 1)
    ]
    legal = [step for step in steps if env._is_on_board(*step[2:]) and env._is_valid_move(seat, *step)]
    return (f"{FILES[c]}{r + 1}{FILES[to_c]}{to_r + 1}" for r, c, to_r, to_c in legal)


def _alquerque(env: Any, game: Any, seat: int) -> Iterable[str]:
    board, size = game["board"], env.BOARD_N
    mine, other = ("R", "B") if seat == 0 else ("B", "R")
    found = []
    for row, column in env.rc_to_cell:
        if board[row][column] == mine:
            ends = [(row + down, column + right) for down, right in env.forward_dirs[seat]]
            ends += [
                (row + 2 * down, column + 2 * right)
                for down, right in NEIGHBOURS
                if _at(board, row + down, column + right) == other
            ]
            found += [(row * size + column, r * size + c) for r, c in ends if _at(board, r, c) == ""]
    return (f"{start} {end}" for start, end in dict.fromkeys(found))


def _lines_of_action(env: Any, game: Any, seat: int) -> Iterable[str]:
    board, size = game["board"], env.BOARD_N
    mine, other = ("O", "X") if seat == 0 else ("X", "O")
    found = []
    for row, column in ((row, column) for row in range(size) for column in range(size) if board[row][column] == mine):
        for down, right in NEIGHBOURS:
            far = env._count_pieces_on_line(row, column, down, right)
            path = [_at(board, row + down * step, column + right * step) for step in range(1, far + 1)]
            if path[-1] is not None and path[-1] != mine and other not in path[:-1]:
                found.append(f"{_square(env, row, column)}{_square(env, row + down * far, column + right * far)}")
    return found


def _square(env: Any, row: int, column: int) -> str:
    """The name of a field that the game's own `coord_to_rc` reads back as this row and column."""
    names = (f"{FILES[column]}{rank}" for rank in (row + 1, env.BOARD_N - row))
    return next(name for name in names if tuple(env.coord_to_rc(name)) == (row, column))


def _at(board: Any, row: int, column: int) -> Any:
    return board[row][column] if 0 <= row < len(board) and 0 <= column < len(board[0]) else None


def _peg_jump(env: Any, game: Any, seat: int) -> Iterable[str]:
    board = game["board"]
    jumps = [(start, end) for start, over, end in env.ALLOWED_MOVES if board[start] and board[over] and not board[end]]
    return (f"{start} {end}" for start, end in dict.fromkeys(jumps))


def _fifteen_puzzle(env: Any, game: Any, seat: int) -> Iterable[str]:
    row, column = env._get_empty_position()
    return (name for name, can in zip(DIRECTIONS, (row < 3, row > 0, column < 3, column > 0), strict=True) if can)


def _frozen_lake(env: Any, game: Any, seat: int) -> Iterable[str]:
    row, column = game["player_pos"]
    ends = {name: (row + env.actions[name][0], column + env.actions[name][1]) for name in DIRECTIONS}
    return (name for name, end in ends.items() if all(0 <= place < env.size for place in end))


def _game_2048(env: Any, game: Any, seat: int) -> Iterable[str]:
    before = [row[:] for row in game["board"]]
    legal = []
    for number, name in enumerate(DIRECTIONS):
        game["board"] = [row[:] for row in before]
        if env._apply_move(number)[0]:
            legal.append(name)
    game["board"] = before
    return legal


def _tower_of_hanoi(env: Any, game: Any, seat: int) -> Iterable[str]:
    towers = game["towers"]
    pairs = [(source, target) for source in towers for target in towers if source != target and towers[source]]
    return (
        f"{source} {target}"
        for source, target in pairs
        if not towers[target] or towers[target][-1] > towers[source][-1]
    )


def _hand(env: Any, game: Any, seat: int) -> Iterable[object]:
    return (env._val_to_face(card) for card in sorted(game["player_hands"][seat]))


LEGAL_MOVES: dict[str, Lister] = {
    "Alquerque": _alquerque,
    "Bandit": lambda env, game, seat: env.buttons,
    "Battleship": lambda env, game, seat: (
        f"{FILES[row].upper()}{column}"
        for row in range(env.grid_size)
        for column in range(env.grid_size)
        if game["tracking_board"][seat][row][column] == "~"
    ),
    "Blackjack": _always("Hit", "Stand"),
    "Breakthrough": _breakthrough,
    "Briscola": lambda env, game, seat: (f"play {card}" for card in range(1, len(game["players"][seat]["hand"]) + 1)),
    "Chopsticks": _chopsticks,
    "ConnectFour": lambda env, game, seat: (
        f"col {column}" for column in range(env.num_cols) if game["board"][0][column] == "."
    ),
    "Crusade": lambda env, game, seat: (move.strip("[]") for move in env._legal_moves_for_player(seat)),
    "FifteenPuzzle": _fifteen_puzzle,
    "FrozenLake": _frozen_lake,
    "Game2048": _game_2048,
    "GameOfPureStrategy": _hand,
    "GermanWhist": lambda env, game, seat: (
        f"play {number}"
        for number, card in enumerate(game["players"][seat]["hand"], 1)
        if env._is_valid_play(seat, card)
    ),
    "GuessTheNumber": lambda env, game, seat: (
        number for number in range(env.min_number, env.max_number + 1) if number not in env.guessed_numbers
    ),
    "HighSociety": lambda env, game, seat: sorted(game["player_money"][seat]),
    "IndianPoker": _indian_poker,
    "IteratedMatchingPennies": _always("heads", "tails"),
    "IteratedRockPaperScissors": _always("rock", "paper", "scissors"),
    "KuhnPoker": lambda env, game, seat: game["current_legal_action_tree"],
    "LightsOut": lambda env, game, seat: (f"{row} {column}" for row in range(env.size) for column in range(env.size)),
    "LinesOfAction": _lines_of_action,
    "Minesweeper": lambda env, game, seat: (
        f"{row} {column}" for row in range(env.rows) for column in range(env.cols) if not env.revealed[row][column]
    ),
    "Nim": lambda env, game, seat: (
        f"{pile} {taken}" for pile, size in enumerate(game["piles"]) for taken in range(1, size + 1)
    ),
    "Othello": _othello,
    "PegJump": _peg_jump,
    "PigDice": _always("roll", "hold"),
    "QuantumTicTacToe": lambda env, game, seat: (
        f"{first},{second}" for first, second in combinations(_empty_cells(env, game, seat), 2)
    ),
    "Secretary": _always("accept", "continue"),
    "SimpleTak": _empty_cells,
    "Snake": _always(*DIRECTIONS),
    "Surround": _always(*DIRECTIONS),
    "ThreeCardMonte": lambda env, game, seat: range(env.num_cups),
    "ThreePlayerGOPS": _hand,
    "ThreePlayerTicTacToe": _empty_cells,
    "TicTacToe": _empty_cells,
    "TowerOfHanoi": _tower_of_hanoi,
    "UltimateTicTacToe": _ultimate_tic_tac_toe,
    "WildTicTacToe": lambda env, game, seat: (
        f"{mark} {cell}" for cell in _empty_cells(env, game, seat) for mark in "XO"
    ),
}
"""By the name of TextArena's module."""
