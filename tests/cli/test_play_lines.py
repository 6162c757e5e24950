"""What a person at a game of words is shown."""

from __future__ import annotations

import io
import json

import numpy as np

from ludus.cli.play_lines import Guest, State, Talk
from ludus.games.registry import make_text_game


def test_a_person_sees_what_was_told_and_said_before() -> None:
    position = make_text_game("open_spiel:tic_tac_toe").start(0)
    said, told = io.StringIO('{"move": "4"}\n{"move": "0"}\n'), io.StringIO()
    guest = Guest(State(policy="main@1", game="open_spiel:tic_tac_toe", seat=0), Talk(said, told))
    for seat in (0, 1, 0):
        reply = guest.choose(position, seat, np.random.default_rng(0)) if seat == 0 else "8"
        position.act(seat, reply)
    first, second = (json.loads(line) for line in told.getvalue().splitlines())
    assert second["text"].startswith(first["text"] + "\n\n> 4\n\n")
    assert second["moves"] == [[0, "4"]]
    assert guest.seen.endswith("> 0")
