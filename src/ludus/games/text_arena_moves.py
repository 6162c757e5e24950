"""Legal moves of TextArena's games, read from their state, as a seat writes them.

Invariant: what a function lists is accepted by TextArena, and any other move of the same form is refused; tests try
every one. Add a game by writing a function from its environment to its moves and naming it in `LEGAL_MOVES`. Games
with free speech or amounts without bound cannot be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

FILES = "abcdefghijklmnopqrstuvwxyz"
DIRECTIONS = ("up", "down", "left", "right")
NEIGHBOURS = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if row or column]

Lister = Callable[[Any], list[str]]


def _bracketed(moves: Iterable[object]) -> list[str]:
    return [f"[{move}]" for move in moves]


def _always(*moves: str) -> Lister:
    return lambda env: _bracketed(moves)


def _empty_cells(env: Any) -> list[int]:
    board = env.state.game_state["board"]
    width = len(board[0])
    return [row * width + column for row in range(len(board)) for column in range(width) if board[row][column] == ""]


def _numbered_cells(env: Any) -> list[str]:
    return _bracketed(_empty_cells(env))


def _wild_tic_tac_toe(env: Any) -> list[str]:
    return _bracketed(f"{mark} {cell}" for cell in _empty_cells(env) for mark in "XO")


def _quantum_tic_tac_toe(env: Any) -> list[str]:
    return _bracketed(f"{first},{second}" for first, second in combinations(_empty_cells(env), 2))


def _ultimate_tic_tac_toe(env: Any) -> list[str]:
    game = env.state.game_state
    forced = game["next_micro_board"]
    boards = range(9) if forced is None else [forced]
    is_open = [game["macro_board"][board // 3][board % 3] == " " for board in range(9)]
    cells = [(board, cell) for board in boards if is_open[board] for cell in range(9)]
    return _bracketed(f"{board} {cell}" for board, cell in cells if game["board"][board][cell // 3][cell % 3] == " ")


def _connect_four(env: Any) -> list[str]:
    top = env.state.game_state["board"][0]
    return _bracketed(f"col {column}" for column in range(env.num_cols) if top[column] == ".")


def _kuhn_poker(env: Any) -> list[str]:
    return _bracketed(env.state.game_state["current_legal_action_tree"])


def _indian_poker(env: Any) -> list[str]:
    game, seat = env.state.game_state, env.state.current_player_id
    chips = game["player_chips"][seat]
    if chips < 0:  # the ante was more than there was: TextArena refuses everything
        return []
    to_call = game["highest_bet"] - game["current_bets"][seat]
    if to_call == 0:
        return _bracketed(["check", "fold", *(f"bet {amount}" for amount in range(1, chips + 1))])
    calls = ["call"] if to_call <= chips else []
    return _bracketed([*calls, "fold", *(f"raise {amount}" for amount in range(1, chips - to_call + 1))])


def _nim(env: Any) -> list[str]:
    piles = env.state.game_state["piles"]
    return _bracketed(f"{pile} {taken}" for pile, size in enumerate(piles) for taken in range(1, size + 1))


def _chopsticks(env: Any) -> list[str]:
    hands, seat = env.state.game_state["hands"], env.state.current_player_id
    mine, others = hands[seat], hands[1 - seat]
    attacks = [f"attack {own} {other}" for own in (0, 1) for other in (0, 1) if mine[own] and others[other]]
    splits = [(left, sum(mine) - left) for left in range(sum(mine) + 1)]
    return _bracketed([*attacks, *(f"split {left} {right}" for left, right in splits if [left, right] != mine)])


def _othello(env: Any) -> list[str]:
    moves = env._valid_moves("B" if env.state.current_player_id == 0 else "W")
    return _bracketed(f"{row}, {column}" for row, column in moves) or ["[skip]"]


def _breakthrough(env: Any) -> list[str]:
    seat, size = env.state.current_player_id, env.board_size
    ahead = 1 if seat == 0 else -1
    steps = [
        (row, column, row + ahead, column + side)
        for row in range(size)
        for column in range(size)
        for side in (-1, 0, 1)
    ]
    legal = [step for step in steps if env._is_on_board(*step[2:]) and env._is_valid_move(seat, *step)]
    return _bracketed(f"{FILES[c]}{r + 1}{FILES[to_c]}{to_r + 1}" for r, c, to_r, to_c in legal)


def _crusade(env: Any) -> list[str]:
    moves: list[str] = env._legal_moves_for_player(env.state.current_player_id)
    return moves


def _alquerque(env: Any) -> list[str]:
    board, seat, size = env.state.game_state["board"], env.state.current_player_id, env.BOARD_N
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
    return _bracketed(f"{start} {end}" for start, end in dict.fromkeys(found))


def _lines_of_action(env: Any) -> list[str]:
    board, size = env.state.game_state["board"], env.BOARD_N
    mine, other = ("O", "X") if env.state.current_player_id == 0 else ("X", "O")
    found = []
    for row, column in ((row, column) for row in range(size) for column in range(size) if board[row][column] == mine):
        for down, right in NEIGHBOURS:
            far = env._count_pieces_on_line(row, column, down, right)
            path = [_at(board, row + down * step, column + right * step) for step in range(1, far + 1)]
            if path[-1] is not None and path[-1] != mine and other not in path[:-1]:
                found.append(f"{_square(env, row, column)}{_square(env, row + down * far, column + right * far)}")
    return _bracketed(found)


def _square(env: Any, row: int, column: int) -> str:
    """The name of a field that the game's own `coord_to_rc` reads back as this row and column."""
    names = (f"{FILES[column]}{rank}" for rank in (row + 1, env.BOARD_N - row))
    return next(name for name in names if tuple(env.coord_to_rc(name)) == (row, column))


def _at(board: Any, row: int, column: int) -> Any:
    return board[row][column] if 0 <= row < len(board) and 0 <= column < len(board[0]) else None


def _battleship(env: Any) -> list[str]:
    seen = env.state.game_state["tracking_board"][env.state.current_player_id]
    size = range(env.grid_size)
    return _bracketed(f"{FILES[row].upper()}{column}" for row in size for column in size if seen[row][column] == "~")


def _pure_strategy(env: Any) -> list[str]:
    hand = env.state.game_state["player_hands"][env.state.current_player_id]
    return _bracketed(env._val_to_face(card) for card in sorted(hand))


def _high_society(env: Any) -> list[str]:
    return _bracketed(sorted(env.state.game_state["player_money"][env.state.current_player_id]))


def _briscola(env: Any) -> list[str]:
    hand = env.state.game_state["players"][env.state.current_player_id]["hand"]
    return _bracketed(f"play {number}" for number in range(1, len(hand) + 1))


def _german_whist(env: Any) -> list[str]:
    seat = env.state.current_player_id
    hand = env.state.game_state["players"][seat]["hand"]
    return _bracketed(f"play {number}" for number, card in enumerate(hand, 1) if env._is_valid_play(seat, card))


def _bandit(env: Any) -> list[str]:
    return _bracketed(env.buttons)


def _guess_the_number(env: Any) -> list[str]:
    numbers = range(env.min_number, env.max_number + 1)
    return _bracketed(number for number in numbers if number not in env.guessed_numbers)


def _three_card_monte(env: Any) -> list[str]:
    return _bracketed(range(env.num_cups))


def _peg_jump(env: Any) -> list[str]:
    board = env.state.game_state["board"]
    jumps = [(start, end) for start, over, end in env.ALLOWED_MOVES if board[start] and board[over] and not board[end]]
    return _bracketed(f"{start} {end}" for start, end in dict.fromkeys(jumps))


def _fifteen_puzzle(env: Any) -> list[str]:
    row, column = env._get_empty_position()
    return _bracketed(
        name for name, can in zip(DIRECTIONS, (row < 3, row > 0, column < 3, column > 0), strict=True) if can
    )


def _frozen_lake(env: Any) -> list[str]:
    row, column = env.state.game_state["player_pos"]
    ends = {name: (row + env.actions[name][0], column + env.actions[name][1]) for name in DIRECTIONS}
    return _bracketed(name for name, end in ends.items() if all(0 <= place < env.size for place in end))


def _game_2048(env: Any) -> list[str]:
    game = env.state.game_state
    before = [row[:] for row in game["board"]]
    legal = []
    for number, name in enumerate(DIRECTIONS):
        game["board"] = [row[:] for row in before]
        if env._apply_move(number)[0]:
            legal.append(name)
    game["board"] = before
    return _bracketed(legal)


def _lights_out(env: Any) -> list[str]:
    return _bracketed(f"{row} {column}" for row in range(env.size) for column in range(env.size))


def _tower_of_hanoi(env: Any) -> list[str]:
    towers = env.state.game_state["towers"]
    pairs = [(source, target) for source in towers for target in towers if source != target and towers[source]]
    return _bracketed(
        f"{source} {target}"
        for source, target in pairs
        if not towers[target] or towers[target][-1] > towers[source][-1]
    )


def _minesweeper(env: Any) -> list[str]:
    cells = [(row, column) for row in range(env.rows) for column in range(env.cols)]
    return _bracketed(f"{row} {column}" for row, column in cells if not env.revealed[row][column])


LEGAL_MOVES: dict[str, Lister] = {
    "Alquerque": _alquerque,
    "Bandit": _bandit,
    "Battleship": _battleship,
    "Blackjack": _always("Hit", "Stand"),
    "Breakthrough": _breakthrough,
    "Briscola": _briscola,
    "Chopsticks": _chopsticks,
    "ConnectFour": _connect_four,
    "Crusade": _crusade,
    "FifteenPuzzle": _fifteen_puzzle,
    "FrozenLake": _frozen_lake,
    "Game2048": _game_2048,
    "GameOfPureStrategy": _pure_strategy,
    "GermanWhist": _german_whist,
    "GuessTheNumber": _guess_the_number,
    "HighSociety": _high_society,
    "IndianPoker": _indian_poker,
    "IteratedMatchingPennies": _always("heads", "tails"),
    "IteratedRockPaperScissors": _always("rock", "paper", "scissors"),
    "KuhnPoker": _kuhn_poker,
    "LightsOut": _lights_out,
    "LinesOfAction": _lines_of_action,
    "Minesweeper": _minesweeper,
    "Nim": _nim,
    "Othello": _othello,
    "PegJump": _peg_jump,
    "PigDice": _always("roll", "hold"),
    "QuantumTicTacToe": _quantum_tic_tac_toe,
    "Secretary": _always("accept", "continue"),
    "SimpleTak": _numbered_cells,
    "Snake": _always(*DIRECTIONS),
    "Surround": _always(*DIRECTIONS),
    "ThreeCardMonte": _three_card_monte,
    "ThreePlayerGOPS": _pure_strategy,
    "ThreePlayerTicTacToe": _numbered_cells,
    "TicTacToe": _numbered_cells,
    "TowerOfHanoi": _tower_of_hanoi,
    "UltimateTicTacToe": _ultimate_tic_tac_toe,
    "WildTicTacToe": _wild_tic_tac_toe,
}
"""By the name of TextArena's module."""
