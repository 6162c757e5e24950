"""The attempt of each group that the others are compared with (the advantage `remax`): the policy's likeliest.

Invariant: which attempt is greedy follows from its number alone: the last of its group. It begins as the others do,
with the same line-up; in a game every learning seat is greedy in it, and the other seats are as they are in the others.
"""

from __future__ import annotations

from dataclasses import replace

from ludus.records import Seat


def is_greedy(task: int, group: int) -> bool:
    """Whether a task is the greedy one of its group of so many."""
    return task % group == group - 1


def greedy_seats(seats: tuple[Seat, ...]) -> tuple[Seat, ...]:
    """The same line-up with the likeliest action in the seats that learn."""
    return tuple(replace(seat, greedy=True) if seat.learns else seat for seat in seats)
