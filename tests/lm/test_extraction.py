"""Moves found in replies."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludus.errors import ConfigError
from ludus.lm.extraction import MAX_REPLY_CHARS, WAYS, Extracted, check_extraction, extract

CELLS = ["0,0", "0,1", "1,1"]


def found(move: str) -> Extracted:
    return Extracted(move=move, format_ok=True)


NOTHING = Extracted(move="", format_ok=False)


@pytest.mark.parametrize(
    ("how", "reply", "moves", "expected"),
    [
        ("whole", " 0,1\n", CELLS, found("0,1")),
        ("whole", "0, 1", CELLS, found("0,1")),
        ("whole", "7,7", CELLS, found("7,7")),
        ("whole", "free talk", None, found("free talk")),
        ("whole", " \n", CELLS, NOTHING),
        ("boxed", "so \\boxed{0,1}.", CELLS, found("0,1")),
        ("boxed", "\\boxed{0,0} or rather \\boxed{ 0,1 }", CELLS, found("0,1")),
        ("boxed", "\\boxed{\\text{a} {b}}", None, found("\\text{a} {b}")),
        ("boxed", "\\boxed{0,0} and \\boxed{0,1", CELLS, found("0,0")),
        ("boxed", "\\boxed{}", CELLS, NOTHING),
        ("boxed", "0,1", CELLS, NOTHING),
        ("bracket", "I think [0,0], no, [0,1].", CELLS, found("0,1")),
        ("bracket", "I think [4]", ["[4]", "[5]"], found("[4]")),
        ("bracket", "[Bid: 1, 2]", None, found("Bid: 1, 2")),
        ("bracket", "] nothing [", CELLS, NOTHING),
        ("bracket", "[0,0] then ]", CELLS, NOTHING),
        ("last_line", "<think>hm\n0,0</think>\n0,1\n\n", CELLS, found("0,1")),
        ("last_line", "\n\n", CELLS, NOTHING),
        ("choice", "Either 0,0 or 0,1; I take 0,1 now.", CELLS, found("0,1")),
        ("choice", "BET, not fold? I BET.", ["fold", "bet"], found("bet")),
        ("choice", "go to a10", ["a1", "a10"], found("a10")),
        ("choice", "unbetable folder", ["fold", "bet"], NOTHING),
        ("choice", "[4] it is", ["[4]", "[5]"], found("[4]")),
        ("regex:move: (\\S+)", "move: 0,0 then move: 0,1", CELLS, found("0,1")),
        ("regex:[0-9],[0-9]", "at 1, 1 or 1,1", CELLS, found("1,1")),
        ("regex:(?i)MOVE (\\w+)?", "move ", CELLS, NOTHING),
        ("regex:zzz", "0,0", CELLS, NOTHING),
    ],
)
def test_move_is_found(how: str, reply: str, moves: list[str] | None, expected: Extracted) -> None:
    assert extract(how, reply, moves) == expected


def test_choice_needs_a_list_of_moves() -> None:
    with pytest.raises(ConfigError, match="cannot list its moves"):
        extract("choice", "anything", None)


@pytest.mark.parametrize("how", ["boxd", "", "regex", "Whole"])
def test_unknown_way_names_the_nearest(how: str) -> None:
    with pytest.raises(ConfigError, match="no such way to find a move; did you mean"):
        check_extraction(how)


@pytest.mark.parametrize("pattern", [r"(a)\1", "(", ""])
def test_pattern_that_is_not_taken_is_a_config_error(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"^pattern '.*': (not a regular expression|expected 1 to 256)"):
        check_extraction(f"regex:{pattern}")


@pytest.mark.parametrize("how", sorted(WAYS))
@pytest.mark.parametrize("piece", ["\\boxed{", "[", "]", "\n", "0,1", "{}", "ab"])
def test_long_replies_take_little_time(how: str, piece: str) -> None:
    began = time.process_time()
    extract(how, piece * 1_000_000, ["0,1", "ab", "a"])
    assert time.process_time() - began < 2


def test_only_the_end_of_a_reply_is_read() -> None:
    assert extract("bracket", "[a]" + " " * MAX_REPLY_CHARS, None) == NOTHING


@given(how=st.sampled_from(sorted(WAYS)), reply=st.text(), moves=st.lists(st.text(min_size=1), unique=True))
def test_any_reply_gives_a_move_or_nothing(how: str, reply: str, moves: list[str]) -> None:
    result = extract(how, reply, moves)
    assert result.format_ok == bool(result.move)
    assert result == extract(how, reply, moves)
