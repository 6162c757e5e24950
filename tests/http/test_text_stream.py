"""Pieces of text add up to the whole, whatever the bytes, however they arrive, wherever a stop string stands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ludus.http.token_text import BROKEN, TextStream


def decode(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode(errors="replace")


def pieces(stream: TextStream, tokens: bytes, cuts: Sequence[int]) -> list[str]:
    places = sorted({0, *(cut % (len(tokens) + 1) for cut in cuts), len(tokens)})
    parts = [list(tokens[start:end]) for start, end in pairwise(places)] or [[]]
    given: list[str] = []
    for number, part in enumerate(parts):
        given.append(stream.feed(part, is_last=number == len(parts) - 1))
        if stream.is_stopped:
            break
    return given


BYTES = st.one_of(st.binary(max_size=60), st.text(max_size=30).map(lambda text: text.encode(errors="replace")))


@given(tokens=BYTES, cuts=st.lists(st.integers(0, 100)))
def test_pieces_add_up_to_the_whole(tokens: bytes, cuts: list[int]) -> None:
    stream = TextStream(decode)
    assert "".join(pieces(stream, tokens, cuts)) == decode(tokens) == stream.text


@given(text=st.text(max_size=30).filter(lambda text: BROKEN not in text), cuts=st.lists(st.integers(0, 100)))
def test_no_piece_ends_in_half_a_character(text: str, cuts: list[int]) -> None:
    stream = TextStream(decode)
    assert not any(BROKEN in piece for piece in pieces(stream, text.encode(errors="replace"), cuts))


@given(
    text=st.text("abc", max_size=30),
    stops=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 100)),
)
def test_text_ends_before_the_first_stop_string_however_it_arrives(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    # One token at a time is how a person reads it: the first stop string to be complete ends the reply.
    stream = TextStream(decode, stops)
    shown = "".join(pieces(stream, text.encode(), cuts))
    assert text.startswith(shown)
    assert not any(stop in shown for stop in stops)
    found = [place for stop in stops if (place := text.find(stop)) >= 0]
    assert stream.is_stopped == bool(found)
    assert found or shown == text


def test_what_may_become_a_stop_string_is_held_back_until_it_is_not() -> None:
    stream = TextStream(decode, ["</answer>"])
    assert stream.feed(list(b"B2</an")) == "B2"
    assert stream.feed(list(b"d more")) == "</and more"
    assert stream.feed(list(b"</answer>x")) == ""
    assert stream.is_stopped


def test_endless_rubbish_is_not_held_back_for_ever() -> None:
    stream = TextStream(decode)
    given = [stream.feed([0xE2] * 8) for _ in range(100)]
    assert "".join(given).startswith(BROKEN * 100)


def test_a_decoder_that_drops_a_first_space_still_gives_the_spaces_between_pieces() -> None:
    words = {1: " one", 2: " two", 3: " three"}

    def like_sentencepiece(tokens: Sequence[int]) -> str:
        return "".join(words[token] for token in tokens).removeprefix(" ")

    stream = TextStream(like_sentencepiece)
    assert [stream.feed([token]) for token in (1, 2, 3)] == ["one", " two", " three"]
