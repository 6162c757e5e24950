"""Rewards that compare: exact, numeric, maths, choice, format, length."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from ludus.config import RewardConfig, RewardConfigs
from ludus.errors import ConfigError, RewardError
from ludus.records import PolicyName, PolicyRef, Seat, Task, TaskId
from ludus.rewards.attempt import Attempt
from ludus.rewards.expressions import read_number
from ludus.rewards.making import make_rewards
from ludus.rewards.maths import are_equal
from ludus.rewards.responses import find

CONFIG: TypeAdapter[Any] = TypeAdapter(RewardConfig)


def value(response: str, inputs: dict[str, Any], *, tokens: int | None = None, **config: Any) -> float:
    """What one reward gives, through the whole way that a run takes."""
    rewards = make_rewards([CONFIG.validate_python(config)])
    seat = Seat(policy=PolicyRef(name=PolicyName("main")), learns=True)
    task = Task(id=TaskId(1), game="tasks:test", seed=1, seats=(seat,), inputs=inputs)
    return asyncio.run(rewards.score(task, response, seed=1, tokens=tokens)).total


# -- exact -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "answer", "options", "expected"),
    [
        (" Paris\n", "Paris", {}, 1.0),
        ("paris", "Paris", {}, 0.0),
        ("paris", "Paris", {"ignore_case": True}, 1.0),
        ("I think\n\\boxed{7}", "7", {"find": "boxed"}, 1.0),
        ("I think 7", "7", {"find": "boxed"}, 0.0),
        ("x\n7\n", 7, {"find": "last_line"}, 1.0),
        ("it is [b]", ["a", "b"], {"find": "bracket"}, 1.0),
        ("a=1 a=2", "2", {"find": r"regex:a=(\d)"}, 1.0),
        ("", "x", {}, 0.0),
    ],
)
def test_exact(response: str, answer: Any, options: dict[str, Any], expected: float) -> None:
    assert value(response, {"answer": answer}, kind="exact", **options) == expected


def test_the_answer_is_taken_from_the_field_that_is_named() -> None:
    assert value("b", {"answer": "a", "solution": "b"}, kind="exact", answer="solution") == 1.0


def test_a_task_without_the_field_costs_the_episode() -> None:
    with pytest.raises(RewardError, match=r"reward exact: the task has no field 'answer', .* it has: prompt"):
        value("b", {"prompt": "a"}, kind="exact")


# -- numeric -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "answer", "options", "expected"),
    [
        ("so 1 + 1 = 2.", 2, {}, 1.0),
        ("it is 1,234,567", "1234567", {}, 1.0),
        ("about 3.1415", 3.1416, {}, 0.0),
        ("about 3.1415", 3.1416, {"tolerance": 0.001}, 1.0),
        ("1010", 1000, {"tolerance": 0, "relative": 0.01}, 1.0),
        ("1011", 1000, {"tolerance": 0, "relative": 0.01}, 0.0),
        ("-5", 5, {}, 0.0),
        ("6.02e23", "6.02e23", {}, 1.0),
        ("5 is not \\boxed{6}, I said 7", 6, {"find": "boxed"}, 1.0),
        ("no number at all", 0, {}, 0.0),
        (".5", "0.5", {}, 1.0),
        ("1e999999", 1, {}, 0.0),
        ("9" * 5000, 1, {}, 0.0),
        ("nan inf", 1, {}, 0.0),
    ],
)
def test_numeric(response: str, answer: Any, options: dict[str, Any], expected: float) -> None:
    assert value(response, {"answer": answer}, kind="numeric", **options) == expected


@pytest.mark.parametrize("answer", [True, "seven", [7], float("nan")])
def test_a_task_whose_answer_is_no_number_costs_the_episode(answer: Any) -> None:
    with pytest.raises(RewardError, match="reward numeric: the task's field 'answer' is no number"):
        value("7", {"answer": answer}, kind="numeric")


def test_numbers_are_read_exactly() -> None:
    assert str(read_number("-0.1")) == "-1/10"
    assert str(read_number("1,000.50e-1")) == "2001/20"
    assert [read_number(text) for text in ("", ".", "-", "1.2.3", "0x1", "1_0", "e5", "\u0661\u0662x")] == [None] * 8


# -- maths -------------------------------------------------------------------------------------------------------------


EQUAL = [
    ("1/2", "0.5"),
    ("\\frac{1}{2}", "\\frac12"),
    ("\\dfrac{3}{4}", "0.75"),
    ("1,234", "1234"),
    (".5", "\\frac{1}{2}"),
    ("12.0", "12"),
    ("2\\sqrt{3}", "\\sqrt{12}"),
    ("\\sqrt[3]{8}", "2"),
    ("\\sqrt[3]{-8}", "-2"),
    ("x^2+2x+1", "(x+1)^2"),
    ("x^{2}", "x^2"),
    ("\\frac{x}{2}", "0.5x"),
    ("(1, 2)", "(1,2)"),
    ("\\left(\\frac{1}{2},3\\right)", "(0.5,3)"),
    ("\\{1,2\\}", "\\{2,1\\}"),
    ("{1,2}", "\\{2,1\\}"),
    ("1, 2", "2,1"),
    ("2 or 3", "3,2"),
    ("x=5", "5"),
    ("5", "x = 5"),
    ("3\\pi", "\\pi \\cdot 3"),
    ("50\\%", "50"),
    ("\\$10", "10"),
    ("$42$.", "42"),
    ("10\\text{ cm}", "10"),
    ("\\text{East}", "east"),
    ("1\\frac{1}{2}", "3/2"),
    ("1 1/2", "1.5"),
    ("(-\\infty, 3]", "(-\\infty,3]"),
    ("[0,1)\\cup(2,3)", "(2,3)\\cup[0,1)"),
    ("2^{10}", "1024"),
    ("2**10", "1024"),
    ("90^\\circ", "90"),
    ("-\\frac{1}{3}", "\\frac{-1}{3}"),
    ("5!", "120"),
    ("3+4i", "4i+3"),
    ("\\cos(0)", "1"),
    ("|{-3}|", "3"),
    ("1.41421356", "\\sqrt2"),
]
DIFFERENT = [
    ("1/3", "0.333"),
    ("\\frac{1}{23}", "\\frac{12}{3}"),
    ("12", "1 2"),
    ("(0,1]", "[0,1)"),
    ("(1,2)", "(2,1)"),
    ("(1,2,3)", "(1,2)"),
    ("\\{1,1,2\\}", "\\{1,2,2\\}"),
    ("3.14", "\\pi"),
    ("2", "-2"),
    ("x", "y"),
    ("x+1", "x+2"),
    ("\\frac{1}{0}", "1"),
    ("x<3", "x<4"),
    ("", "1"),
    ("9^9^9^9", "9^9^9^9+1"),
    ("1" * 700, "1"),
]


@pytest.mark.parametrize(("found", "wanted"), EQUAL)
def test_equal_as_mathematics(found: str, wanted: str) -> None:
    assert are_equal(found, wanted)
    assert are_equal(wanted, found)


@pytest.mark.parametrize(("found", "wanted"), DIFFERENT)
def test_different_as_mathematics(found: str, wanted: str) -> None:
    assert not are_equal(found, wanted)
    assert not are_equal(wanted, found)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("First 3, then \\boxed{\\frac{1}{2}} it is.", 1.0),
        ("**Answer:** 0.5", 1.0),
        ("The answer is: $\\frac12$.", 1.0),
        ("... so\n#### 0.5", 1.0),
        ("I get 0.5", 1.0),
        ("\\boxed{0.5} or rather \\boxed{0.6}", 0.0),
        ("\\boxed{", 0.0),
        ("", 0.0),
    ],
)
def test_maths_finds_the_answer(response: str, expected: float) -> None:
    assert value(response, {"answer": "1/2"}, kind="maths") == expected


@pytest.mark.parametrize(
    "text",
    [
        *("(" * 600, "{" * 600, "\\frac" * 100, "x" * 600, "1+" * 299 + "1", "-" * 600, "|" * 600, "9^" * 299 + "9"),
        *("\\text{" * 100, "9" + "!" * 500, "\\sqrt" * 120, "," * 600, "\\cup" * 150, "((((1,1),1),1),1)" * 30),
    ],
)
def test_no_answer_takes_long_to_compare(text: str) -> None:
    start = time.monotonic()
    assert not are_equal(text, "7")
    are_equal(text, text[:-1])
    assert time.monotonic() - start < 1.0


# -- choice ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("B", 1.0),
        ("(B)", 1.0),
        ("The answer is B because A is wrong.", 1.0),
        ("A is tempting. \\boxed{B}", 1.0),
        ("It cannot be A. So B.", 1.0),
        ("B or not, it is C", 0.0),
        ("Bananas", 0.0),
        ("blue", 1.0),
        ("I would say green", 0.0),
        ("", 0.0),
    ],
)
def test_choice(response: str, expected: float) -> None:
    inputs = {"answer": "B", "options": ["red", "blue", "green"]}
    assert value(response, inputs, kind="choice", choices="options") == expected


@pytest.mark.parametrize("answer", ["b", "(B)", 1, "blue"])
def test_the_right_choice_may_be_a_letter_a_number_or_a_text(answer: Any) -> None:
    inputs = {"answer": answer, "options": ["red", "blue"]}
    assert value("B", inputs, kind="choice", choices="options") == 1.0


def test_a_task_whose_answer_is_no_option_costs_the_episode() -> None:
    with pytest.raises(RewardError, match="is no option: 'pink'"):
        value("B", {"answer": "pink"}, kind="choice")
    with pytest.raises(RewardError, match="no list of at most 5 options"):
        value("B", {"answer": "B", "options": list("abcdefgh")}, kind="choice", choices="options")


# -- format and length -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<think>a</think><answer>b</answer>", 1.0),
        (" <think>a\n</think>\n\n<answer></answer>\n", 1.0),
        ("<think>" + "long " * 20_000 + "</think><answer>b</answer>", 1.0),
        ("<answer>b</answer><think>a</think>", 0.0),
        ("<think>a</think><answer>b</answer> and", 0.0),
        ("<think>a</think> so <answer>b</answer>", 0.0),
        ("<think>a<think>b</think></think><answer>b</answer>", 0.0),
        ("<think>a</think>", 0.0),
        ("", 0.0),
    ],
)
def test_tags(response: str, expected: float) -> None:
    assert value(response, {}, kind="format", tags=["think", "answer"]) == expected


def test_a_pattern_is_looked_for_in_the_whole_response() -> None:
    assert value("<think>" + "x" * 10_000, {}, kind="format", pattern="^<think>") == 1.0
    assert value("x<think>", {}, kind="format", pattern="^<think>") == 0.0
    config = {"kind": "format", "pattern": r"#### \d+\s*$"}
    assert value("thus\n#### 42\n", {}, **config) == 1.0
    assert value("#### 42 or so", {}, **config) == 0.0
    assert value("x" * 100_000 + "\n#### 42", {}, **config) == 1.0


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "can be matched in linear time"),
        ("(", "not a regular expression"),
    ],
)
def test_patterns_that_cannot_be_kept_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"rewards.format: pattern .*{reason}"):
        value("", {}, kind="format", pattern=pattern)


@pytest.mark.parametrize(
    ("tokens", "expected"), [(0, 0.0), (80, 0.0), (85, -0.25), (90, -0.5), (100, -1.0), (1000, -1.0)]
)
def test_the_soft_overlong_punishment(tokens: int, expected: float) -> None:
    assert value("x", {}, tokens=tokens, kind="length", longest=100, buffer=20) == expected


def test_length_in_words_and_characters() -> None:
    assert value("a b c", {}, kind="length", longest=3, buffer=1, unit="words") == -1.0
    assert value("abc", {}, kind="length", longest=5, buffer=4, unit="characters") == -0.5
    with pytest.raises(RewardError, match="nobody said how many tokens"):
        value("abc", {}, kind="length", longest=5, buffer=4)


# -- configs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        {"kind": "exact", "find": "nowhere"},
        {"kind": "exact", "find": "choice"},
        {"kind": "maths", "find": "regex:("},
        {"kind": "numeric", "find": "boxd"},
        {"kind": "custom", "name": "never_heard_of"},
        {"kind": "judge", "endpoint": "gpt", "rubric": "Is it good?"},
    ],
)
def test_what_is_named_and_is_not_there_is_refused_with_its_label(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^rewards\.mine: "):
        make_rewards([CONFIG.validate_python({**config, "label": "mine"})])


@pytest.mark.parametrize(
    "config",
    [
        {"kind": "format"},
        {"kind": "format", "pattern": "a", "tags": ["b"]},
        {"kind": "format", "tags": ["a>", "b"]},
        {"kind": "format", "tags": ["a", "a"]},
        {"kind": "length", "longest": 10, "buffer": 11},
        {"kind": "judge", "endpoint": "e", "rubric": "r", "lowest": 1},
        {"kind": "exact", "weight": float("nan")},
        {"kind": "exact", "label": "My Label"},
        {"kind": "nonsense"},
    ],
)
def test_configs_that_mean_nothing_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CONFIG.validate_python(config)


def test_two_rewards_need_two_labels() -> None:
    configs: TypeAdapter[Any] = TypeAdapter(RewardConfigs)
    with pytest.raises(ValidationError, match="exact is there twice; give each a label of its own"):
        configs.validate_python([{"kind": "exact"}, {"kind": "exact"}])
    assert len(configs.validate_python([{"kind": "exact"}, {"kind": "exact", "label": "other"}])) == 2


def test_finding_is_linear_whatever_a_response_holds() -> None:
    hostile = ["\\boxed{" * 20_000, "answer is " * 20_000, "9," * 60_000, "#" * 200_000, "answer" + " " * 200_000]
    for how in ("answer", "number", "boxed", "last_line", "bracket"):
        for text in hostile:
            start = time.monotonic()
            find(how, text)
            assert time.monotonic() - start < 2.0


def test_an_attempt_knows_its_prompt() -> None:
    assert Attempt(response="", inputs={"prompt": "2 + 2?"}).prompt == "2 + 2?"
