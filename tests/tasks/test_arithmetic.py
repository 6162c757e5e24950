"""Sums: right, distinct, and never both in training and held out."""

import re
from typing import Any

import pytest

from ludus.config import TasksetConfig
from ludus.errors import ConfigError
from ludus.tasks import load_taskset


def rows(query: str, **settings: Any) -> list[dict[str, Any]]:
    return list(load_taskset(TasksetConfig.model_validate({"path": f"ludus/arithmetic{query}", **settings})).rows)


def numbers(row: dict[str, Any]) -> tuple[int, str, int]:
    a, op, b, equals = row["prompt"].split()
    assert equals == "="
    return int(a), op, int(b)


def test_answers_are_right_and_solutions_end_with_them() -> None:
    for row in rows("?digits=3&ops=+-*&count=500&worked=1"):
        a, op, b = numbers(row)
        assert int(row["answer"]) == {"+": a + b, "-": a - b, "*": a * b}[op]
        assert int(row["answer"]) >= 0
        assert re.findall(r"\d+", row["solution"])[-1] == row["answer"]
        for left, right in re.findall(r"([\d+*-]+)=(-?\d+)", row["solution"]):
            terms = [int(term) for term in re.split(r"[+*-]", left)]
            expected = (
                terms[0] * terms[1] if "*" in left else terms[0] + (sum(terms[1:]) if "+" in left else -sum(terms[1:]))
            )
            assert expected == int(right)


def test_rows_differ_and_follow_from_the_path() -> None:
    made = rows("?digits=2&ops=+-&count=5000")
    assert len({row["prompt"] for row in made}) == 5000
    assert made == rows("?digits=2&ops=+-&count=5000&seed=0&split=train")
    assert made[:100] == rows("?digits=2&ops=+-&count=100")
    assert made != rows("?digits=2&ops=+-&count=5000&seed=1")
    assert {numbers(row)[1] for row in made} == {"+", "-"}


def test_no_problem_is_both_trained_on_and_held_out_whatever_the_seed() -> None:
    def problems(query: str) -> set[tuple[Any, ...]]:
        found = [numbers(row) for row in rows(query)]
        return {(op, *((a, b) if op == "-" else sorted((a, b)))) for a, op, b in found}

    trained = problems("?digits=2&ops=+-&count=100000") | problems("?digits=2&ops=+&count=3000&seed=9")
    held_out = problems("?digits=2&ops=+-&count=100000&split=test") | problems("?digits=2&count=500&split=test&seed=4")
    assert not trained & held_out
    # Together they are all there is: 100 * 101 / 2 sums, and as many differences.
    assert len(trained) + len(held_out) == 100 * 101
    assert 0.17 < len(held_out) / (100 * 101) < 0.23


def test_large_numbers_are_drawn_without_listing_them_all() -> None:
    made = rows("?digits=9&ops=-*&count=300")
    assert len({row["prompt"] for row in made}) == 300
    assert max(numbers(row)[0] for row in made) > 10**8


def test_harder_sums_are_scored_harder() -> None:
    scores = {
        row["prompt"]: row["difficulty"]
        for split in ("train", "test")
        for row in rows("?digits=2&count=9999", split=split)
    }
    assert scores["2 + 3 ="] < scores["7 + 8 ="] < scores["31 + 42 ="] < scores["77 + 88 ="]


def test_the_split_can_stand_beside_the_path_but_not_against_it() -> None:
    assert rows("?digits=1", split="test") == rows("?digits=1&split=test")
    with pytest.raises(ConfigError, match=r"the path says split=train, but split: test was asked for"):
        rows("?split=train", split="test")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?digit=2", "unknown parameter 'digit'; did you mean digits"),
        ("?digits=0", "expected digits to be a whole number from 1 to 9, got '0'"),
        ("?digits=two", "got 'two'"),
        ("?digits=²", "got '²'"),
        ("?ops=", "expected ops out of"),
        ("?ops=+/", "expected ops out of"),
        ("?ops=++", "expected ops out of"),
        ("?count=1&count=2", "count is given twice"),
        ("?split=dev", "expected split train or test"),
        ("?count=" + "9" * 30, "expected count to be a whole number"),
    ],
)
def test_wrong_parameters_are_refused(query: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rows(query)
    assert message in str(caught.value)


def test_an_unknown_set_of_ours_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ludus makes no taskset 'ludus/algebra' itself; it has ludus/arithmetic"):
        load_taskset(TasksetConfig.model_validate("ludus/algebra"))
