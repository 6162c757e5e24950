"""Episodes as files that other programs read: a line of JSON, or a game of PGN."""

from __future__ import annotations

import json

from ludus.games.board_frames import board_kind, replay_game
from ludus.records import Episode

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
_LINE = 80


def json_line(episode: Episode) -> str:
    """Everything of an episode in one line."""
    task = episode.task
    told = {
        "id": episode.id,
        "game": task.game,
        "purpose": task.purpose,
        "task": task.id,
        "attempt": task.attempt,
        "group": task.group,
        "seed": task.seed,
        "inputs": task.inputs,
        "seats": [{"policy": str(seat.policy), "greedy": seat.greedy, "nodes": seat.nodes} for seat in task.seats],
        "returns": list(episode.returns),
        "moves": episode.turns(),
        "move_texts": list(episode.move_texts),
        "replies": list(episode.replies),
        "rewards": dict(episode.rewards),
        "truncated": episode.truncated,
        "error": episode.error,
    }
    return json.dumps(told) + "\n"


def pgn_game(episode: Episode) -> str:
    """A game of chess in PGN; empty for another game, and for one that cannot be replayed."""
    if board_kind(episode.task.game) != "chess" or episode.replies:
        return ""
    replay = replay_game(episode)
    if len(replay.frames) < 2 or not replay.frames[0].text:
        return ""
    start, moves = replay.frames[0].text, [text for frame in replay.frames for _, _, text in frame.moves]
    begins_white, mover = start.split()[1] == "w", replay.frames[1].moves[0][0]
    white, black = (mover, 1 - mover) if begins_white else (1 - mover, mover)
    names = [_plain(str(seat.policy)) for seat in episode.task.seats]
    result = "*" if episode.error or replay.problem else _result(episode, white, black)
    head = {"Event": f"ludus {episode.task.purpose}", "Site": "?", "Date": "????.??.??", "Round": str(episode.task.id)}
    head |= {"White": names[white], "Black": names[black], "Result": result, "GameId": str(episode.id)}
    if start != START:
        head |= {"SetUp": "1", "FEN": start}
    first = 2 * int(start.split()[-1]) - 1 - begins_white
    said = [_numbered(first + place, text, is_first=not place) for place, text in enumerate(moves)]
    tags = "".join(f'[{name} "{value}"]\n' for name, value in head.items())
    return f"{tags}\n{_wrapped([*said, result])}\n\n"


def _numbered(half_moves: int, text: str, *, is_first: bool) -> str:
    number = half_moves // 2 + 1
    return f"{number}. {text}" if half_moves % 2 == 0 else f"{number}... {text}" if is_first else text


def _result(episode: Episode, white: int, black: int) -> str:
    mine, theirs = episode.returns[white], episode.returns[black]
    return "1/2-1/2" if mine == theirs else "1-0" if mine > theirs else "0-1"


def _wrapped(words: list[str]) -> str:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) >= _LINE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def _plain(name: str) -> str:
    return "".join(sign if sign.isprintable() and sign not in '"\\' else "?" for sign in name)[:100]
