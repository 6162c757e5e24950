"""Regular expressions in linear time: the matches of `re` in what both take, whatever the text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ludus.errors import ConfigError
from ludus.lm.linear_regex import MAX_TEXT_CHARS, LinearRegex, compile_pattern

TEXTS = ["", "abc", "a1 b22\nc333", "Move: [4], no [5]", "x\n\nlast line\n", "ÄÖ_9 aA", "foo.bar(baz) = 12.5;"]
PATTERNS = [
    "a",
    "[a-c]+",
    r"\[(\d+)\]",
    r"\[(.*)\]",
    r"\[(.*?)\]",
    r"(?i)MOVE:\s*(\S+)",
    "^(.+)$",
    "(?m)^(.+)$",
    r"(?s)x.*line",
    r"\b\w+\b",
    r"\B\d",
    "(?:ab|a)(c|bcd)?",
    r"(\d+)(\.\d+)?",
    r"[^\d\s]+",
    "(?i)[^A]b?",
    "a{2,3}|b{2}|c{2,}",
    r"(a|b)*c",
    r"\Aa",
    r"\d\z",
    "(?:(?:a?b?)+c)",
    "(?i:A)1",
    r"\w+$",
]
ATOMS = st.sampled_from(["a", "b", "ab", ".", "[ab]", "[^a]", r"\w", r"\d", r"\s", "^", "$", r"\b", "(?:a|b)"])
PIECES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


def last_of_re(pattern: str, text: str) -> str | None:
    """What `re` finds, with the places and classes of RE2."""
    pattern = pattern.replace(r"\z", r"\Z")
    if "(?m)" not in pattern:
        pattern = pattern.replace("$", r"\Z")
    pattern = "(?a)" + pattern
    matches = list(re.finditer(pattern, text))
    if not matches:
        return None
    return (matches[-1][1] or "") if re.compile(pattern).groups else matches[-1][0]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", TEXTS)
def test_last_match_is_that_of_re(pattern: str, text: str) -> None:
    assert LinearRegex(pattern).last(text) == last_of_re(pattern, text)


@given(pattern=PIECES, text=st.text(alphabet="ab1 \n", max_size=12))
def test_any_pattern_matches_as_re_does(pattern: str, text: str) -> None:
    assume(all(match[0] for match in re.finditer(pattern, text)))
    assert LinearRegex(pattern).last(text) == last_of_re(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+b", "a" * 100_000),
        ("(?:a|aa)+$", "a" * 100_000 + "b"),
        ("a*a*a*a*a*a*b", "a" * 100_000),
        (r"\[(.*)\]", "[" * 100_000),
        (r"(.*)(.*)(.*)(.*)=", "x" * 100_000),
        ("a|a.*b", "a" * 100_000),
        ("(?:.?){200}z", "y" * 100_000),
    ],
)
def test_no_text_makes_a_pattern_slow(pattern: str, text: str) -> None:
    began = time.process_time()
    LinearRegex(pattern).last(text)
    assert time.process_time() - began < 10


def test_only_the_end_of_a_text_is_looked_at() -> None:
    assert LinearRegex("a").last("a" + " " * MAX_TEXT_CHARS) is None


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (r"(a)\1", "linear time, in the syntax of RE2"),
        ("(?=a)b", "linear time, in the syntax of RE2"),
        ("(?<!a)b", "linear time, in the syntax of RE2"),
        ("(?>a+)b", "linear time, in the syntax of RE2"),
        ("a++b", "linear time, in the syntax of RE2"),
        (r"\d\Z", "invalid escape sequence"),
        ("(", "missing"),
        ("\ud800", "linear time, in the syntax of RE2"),
        ("", "1 to 256 characters"),
        ("a" * 257, "1 to 256 characters"),
        ("(?:a{999}){999}", "linear time, in the syntax of RE2"),
    ],
)
def test_what_cannot_be_matched_so_is_refused_in_one_sentence(pattern: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        compile_pattern(pattern)


def test_a_text_that_is_no_unicode_is_searched_all_the_same() -> None:
    assert LinearRegex("b+").last("a\ud800bb") == "bb"
    assert LinearRegex("^a").is_in("a\udfff")


def test_a_whole_text_is_searched_for_a_form() -> None:
    assert LinearRegex("^a").is_in("a" + " " * 100_000)
    assert not LinearRegex("^b").is_in("a" * 100_000)
