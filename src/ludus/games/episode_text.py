"""A recorded episode as a person reads it: the moves with their positions, what was said, or an attempt at a task."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.errors import EnvError, RolloutError, boundary
from ludus.games.registry import make_game, make_text_game
from ludus.records import Episode


def episode_lines(episode: Episode, *, moves_only: bool = False) -> Iterator[str]:
    """The whole episode and how it ended. Positions are several lines in one."""
    if episode.task.game.startswith("tasks:"):
        yield from _attempt_lines(episode, moves_only=moves_only)
        return
    yield from move_lines(episode, moves_only=moves_only)
    yield "returns: " + ", ".join(f"seat {seat}: {value:g}" for seat, value in enumerate(episode.returns))


def move_lines(episode: Episode, *, moves_only: bool = False) -> Iterator[str]:
    """A game without how it ended."""
    return (_conversation_lines if episode.replies else _board_lines)(episode, moves_only=moves_only)


def _board_lines(episode: Episode, *, moves_only: bool) -> Iterator[str]:
    position = make_game(episode.task.game).start(episode.task.game_seed)
    turns = episode.turns()
    for ply in sorted({ply for ply, _, _ in turns}):
        moves = {seat: action for at, seat, action in turns if at == ply}
        try:
            with boundary(EnvError, f"move {moves}"):
                said = ", ".join(f"seat {s} plays {position.action_text(s, a)}" for s, a in moves.items())
                position.act(moves)
        except RolloutError as error:
            # The last move of a failed episode may be the one that broke it.
            yield f"{ply + 1:>3}. {error}"
            return
        yield f"{ply + 1:>3}. {said}"
        if not moves_only:
            yield position.text()


def _conversation_lines(episode: Episode, *, moves_only: bool) -> Iterator[str]:
    position = make_text_game(episode.task.game).start(episode.task.game_seed)
    attempts = zip(
        episode.move_plies, episode.move_seats, episode.move_actions, episode.move_texts, episode.replies, strict=True
    )
    for ply, seat, accepted, move, reply in attempts:
        said = "" if reply.strip() == move else f"  (said: {reply.strip()!r})"
        yield f"{ply + 1:>3}. seat {seat} {'plays' if accepted else 'may not play'} {move!r}{said}"
        if accepted:
            position.act(int(seat), move)
            if not moves_only:
                yield position.text()


def _attempt_lines(episode: Episode, *, moves_only: bool) -> Iterator[str]:
    """What was said in an attempt at a task, and what it was worth."""
    for number, (heard, said) in enumerate(zip(episode.move_texts, episode.replies, strict=True)):
        if not moves_only:
            yield f"{number + 1:>3}. told: {heard}"
        yield f"{number + 1:>3}. said: {said}"
    for name, value in episode.rewards.items():
        yield f"reward {name}: {value:g}"
    yield f"return: {episode.returns[0]:g}" + ("  (a limit ended it)" if episode.truncated else "")
