"""Orders that follow from the group's number alone."""

from collections import Counter
from typing import Any

import pytest
from pydantic import TypeAdapter

from ludus.config.sections.tasks import OrderConfig
from ludus.errors import ConfigError
from ludus.tasks.curricula import OWN, Curriculum, Fixed, make_curriculum, register_curriculum

ROWS = [{"prompt": str(i), "difficulty": (i * 7 % 20) // 2} for i in range(20)]
ORDER: TypeAdapter[Any] = TypeAdapter(OrderConfig)


def make(order: Any, *, seed: int = 3, rows: Any = ROWS) -> Curriculum:
    return make_curriculum(ORDER.validate_python(order), rows, seed)


def epoch(curriculum: Curriculum, number: int, size: int = 20) -> list[int]:
    return [curriculum.choose(i) for i in range(number * size, (number + 1) * size)]


def test_sequential_is_the_file_over_and_over() -> None:
    assert epoch(make("sequential"), 0) == epoch(make("sequential"), 5) == list(range(20))


@pytest.mark.parametrize("order", ["shuffle", "easy_to_hard", {"kind": "easy_to_hard", "levels": 4}])
def test_every_row_once_in_each_epoch_and_epochs_differ(order: Any) -> None:
    curriculum = make(order)
    epochs = [epoch(curriculum, number) for number in range(6)]
    assert all(sorted(rows) == list(range(20)) for rows in epochs)
    assert len({tuple(rows) for rows in epochs}) == 6
    assert epoch(make(order, seed=4), 0) != epochs[0]


@pytest.mark.parametrize("order", ["sequential", "shuffle", "random", "easy_to_hard"])
def test_a_choice_depends_on_its_number_alone(order: str) -> None:
    whole = [make(order).choose(number) for number in range(100)]
    backwards = make(order)
    assert [backwards.choose(number) for number in reversed(range(100))] == whole[::-1]
    resumed = make(order)
    resumed.load_state(make(order).state())
    assert [resumed.choose(number) for number in range(63, 100)] == whole[63:]
    assert not make(order).adapts


def test_an_order_is_the_same_for_ever() -> None:
    assert epoch(make("shuffle"), 0)[:8] == [12, 19, 13, 2, 11, 18, 0, 3]
    assert [make("random").choose(number) for number in range(8)] == [6, 16, 7, 18, 7, 6, 10, 6]


def test_random_draws_with_replacement_and_evenly() -> None:
    curriculum = make("random")
    counts = Counter(curriculum.choose(number) for number in range(4000))
    assert len(counts) == 20
    assert max(counts.values()) < 1.4 * min(counts.values())


def test_easy_to_hard_never_gets_easier_within_an_epoch() -> None:
    difficulties = [ROWS[row]["difficulty"] for row in epoch(make("easy_to_hard"), 1)]
    assert difficulties == sorted(difficulties)


def test_levels_shuffle_what_is_about_as_hard() -> None:
    rows = [{"difficulty": i} for i in range(20)]
    strict, loose = make("easy_to_hard", rows=rows), make({"kind": "easy_to_hard", "levels": 2}, rows=rows)
    assert epoch(strict, 0) == epoch(strict, 1) == list(range(20))
    assert set(epoch(loose, 0)[:10]) == set(range(10))
    assert epoch(loose, 0)[:10] != list(range(10))


def test_easy_to_hard_needs_a_difficulty_in_every_row() -> None:
    with pytest.raises(ConfigError, match=r"needs a number 'difficulty' in every row; the processor score_difficulty"):
        make("easy_to_hard", rows=[{"difficulty": 1}, {"prompt": "a"}])


class EveryThird(Fixed):
    def __init__(self, rows: Any, seed: int, step: int = 3) -> None:
        self.count, self.step = len(rows), step

    def choose(self, number: int) -> int:
        return number * self.step % self.count


def test_a_plugins_order_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OWN, "added", {})
    register_curriculum("thirds", EveryThird)
    register_curriculum("half", lambda rows, seed: object())  # type: ignore[arg-type, return-value]
    assert make({"kind": "custom", "name": "thirds"}).choose(2) == 6
    assert make({"kind": "custom", "name": "thirds", "options": {"step": 7}}).choose(2) == 14
    for name, message in (
        ("third", "curriculum 'third': no such curriculum; did you mean thirds"),
        ("half", "curriculum half: it lacks adapts, choose"),
    ):
        with pytest.raises(ConfigError, match=message):
            make({"kind": "custom", "name": name})
    with pytest.raises(ConfigError, match="curriculum thirds: TypeError"):
        make({"kind": "custom", "name": "thirds", "options": {"stride": 7}})
