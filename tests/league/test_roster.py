"""Who belongs to a population, and whose weights each began with."""

import json

import pytest

from ludus.errors import LudusError
from ludus.league.matchmaking.population import UNIFORM, Recruit, Roster, label
from ludus.league.schedulers import ScoreBook
from ludus.records import PolicyRef


def recruit(text: str, *, parent: str | None = None, frozen: bool = True) -> Recruit:
    ref = PolicyRef.parse(text)
    return Recruit(
        ref=ref,
        agent=str(ref.name),
        generation=ref.version,
        learner=f"{ref.name}-1",
        parent=None if parent is None else PolicyRef.parse(parent),
        frozen=frozen,
    )


def test_policies_are_numbered_by_agent_from_one() -> None:
    roster = Roster(["main", "rival"])
    assert str(roster.next_ref("main")) == "main@1"
    roster.add(recruit("main@1"))
    roster.add(recruit("rival@1", frozen=False))
    assert str(roster.next_ref("main")) == "main@2"
    assert [str(one.ref) for one in roster.frozen()] == ["main@1"]
    roster.freeze(PolicyRef.parse("rival@1"))
    assert [str(one.ref) for one in roster.frozen("rival")] == ["rival@1"]


def test_a_number_is_given_once_and_strangers_are_refused() -> None:
    roster = Roster(["main"])
    with pytest.raises(LudusError, match="the next of its agent is main@1"):
        roster.add(recruit("main@2"))
    with pytest.raises(LudusError, match="there is no agent rival"):
        roster.add(recruit("rival@1"))


def test_lineage_survives_json() -> None:
    roster = Roster(["main"])
    roster.add(recruit("main@1"))
    roster.add(recruit("main@2", parent="main@1", frozen=False))
    again = Roster(["main"])
    again.load_state(json.loads(json.dumps(roster.state())))
    assert list(again) == list(roster)
    assert again.find(PolicyRef.parse("main@2")) == recruit("main@2", parent="main@1", frozen=False)


def test_fixed_players_are_written_by_their_name() -> None:
    assert label(UNIFORM) == "random"
    assert label(PolicyRef.parse("main@3")) == "main@3"


def test_scores_count_both_sides_and_old_games_less() -> None:
    book = ScoreBook()
    assert book.score("a", "b") == 0.5
    for _ in range(3):
        book.add("a", "b", 1.0)
    assert book.score("a", "b") == pytest.approx(3.5 / 4)
    assert book.score("b", "a") == pytest.approx(0.5 / 4)
    book.age("a", 0.5)
    assert book.games("b", "a") == pytest.approx(1.5)
    book.copy("a", "a@1")
    book.forget("a")
    assert book.games("a", "b") == 0.0
    assert book.score("a@1", "b") == pytest.approx(2.0 / 2.5)
    again = ScoreBook()
    again.load_state(json.loads(json.dumps(book.state())))
    assert again.state() == book.state()
