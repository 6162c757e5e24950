"""`bench lm`: its tasks are sound games, and its figures are what was measured."""

import pytest

from ludus.bench.lm import FLOPS_PER_TOKEN, Results, beside_trl, over_turns
from ludus.bench.word_games import Lines
from ludus.testing import check_text_game


@pytest.mark.parametrize("turns", [1, 8])
def test_the_tasks_keep_the_promises_of_games_of_words(turns: int) -> None:
    check_text_game(Lines("lines", turns=turns, letters=11))


def test_the_tiny_models_prompt_has_sixteen_tokens() -> None:
    from transformers import AutoTokenizer

    from ludus.bench.lm import PROMPT_TOKENS
    from ludus.bench.word_games import PROMPT_LETTERS
    from ludus.lm.chat import ChatFormat
    from ludus.lm.model_folder import find_model_folder

    chat = ChatFormat(AutoTokenizer.from_pretrained(find_model_folder("ludus/tiny")))
    assert len(chat.opening([{"role": "user", "content": "e" * PROMPT_LETTERS}])) == PROMPT_TOKENS


def test_figures_are_medians_over_rounds_beside_the_peer() -> None:
    results: Results = {
        ("trl", 32): [
            {"steps": 100.0, "cpu_s": seconds, "generation_cpu_s": seconds / 2} for seconds in (1.0, 2.0, 50.0)
        ],
        ("loop", 32): [{"steps": 100.0, "cpu_s": 1.0}],
        ("generation", 32): [{"steps": 300.0, "cpu_s": 1.0, "gemm_flops": FLOPS_PER_TOKEN * 600}],
        ("training", 32): [{"steps": 100.0, "cpu_s": 1.0, "gemm_flops": FLOPS_PER_TOKEN * 900}],
    }
    ratios = {figure.name: figure.ratio for figure in beside_trl(results, 32)}
    assert ratios["64x32, end to end"] == pytest.approx(2.0)
    assert ratios["64x32, generation"] == pytest.approx(3.0)
    assert ratios["64x32, training"] == pytest.approx(1.0)
    assert ratios["64x32, generation, of products alone"] == pytest.approx(0.5)
    assert ratios["64x32, training, of products alone"] == pytest.approx(0.5)  # 3 products over 48 tokens for 32


def test_turns_are_compared_per_cpu_second_and_schedules_by_the_clock() -> None:
    results: Results = {
        ("episode_rows", 32): [{"steps": 80.0, "cpu_s": 2.0, "wall_s": 2.0}],
        ("turn_rows", 32): [{"steps": 20.0, "cpu_s": 2.0, "wall_s": 1.0}],
        ("async", 32): [{"steps": 120.0, "cpu_s": 9.0, "wall_s": 2.0}],
    }
    turns, schedules = over_turns(results)
    assert turns.ratio == pytest.approx(4.0)
    assert schedules.ratio == pytest.approx(1.5)
