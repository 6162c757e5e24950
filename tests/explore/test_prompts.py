"""Prompt templates."""

from __future__ import annotations

import pytest

from ludus.errors import ConfigError
from ludus.explore import prompts
from ludus.explore.prompts import PROMPTS, PromptTemplate, find_prompt, register_prompt


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts.PROMPTS, "added", {})


def test_plain_names_the_news_and_the_moves() -> None:
    assert find_prompt("plain").message("The board.", ["a1", "b2"]) == "The board.\nMoves: a1 b2"


def test_bare_says_the_news_alone() -> None:
    assert find_prompt("bare").message("The board.", ["a1", "b2"]) == "The board."


def test_game_that_cannot_list_its_moves_is_told_without_them() -> None:
    assert find_prompt("plain").message("Talk.", None) == "Talk."


def test_opening_has_a_system_message_where_the_template_has_one() -> None:
    assert [message["role"] for message in find_prompt("plain").opening("Hi.", None)] == ["user"]
    system, user = find_prompt("boxed").opening("Hi.", ["a"])
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"] == "Hi.\nMoves: a\nGive your move as \\boxed{move}."


def test_many_moves_are_cut() -> None:
    message = PromptTemplate(most_moves=2).message("x", ["a", "b", "c"])
    assert message == "x\nMoves: a b ... (3 in all)"


def test_braces_in_news_and_moves_are_left_alone() -> None:
    assert PromptTemplate(ask="{now}").message("{news}", ["{0}"]) == "{news}\nMoves: {0}\n{now}"


def test_retry_says_that_the_move_was_not_legal() -> None:
    assert find_prompt("plain").retry(["a"]) == "Not a legal move. Try again.\nMoves: a"


@pytest.mark.parametrize("name", PROMPTS.names())
def test_every_template_tells_all_that_the_game_says(name: str) -> None:
    assert "line one\nline two" in find_prompt(name).message("line one\nline two", ["a"])


@pytest.mark.usefixtures("clean_registry")
def test_registered_template_is_found() -> None:
    register_prompt("mine", PromptTemplate(ask="Go."))
    assert find_prompt("mine").ask == "Go."


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("name", ["plain", ""])
def test_taken_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="expected a new name"):
        register_prompt(name, PromptTemplate())


def test_unknown_template_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="prompt template 'plane': no such prompt template; did you mean plain"):
        find_prompt("plane")
