"""What cannot be a population is refused before anything is written, with what to write instead."""

import re
from pathlib import Path

import pytest

from ludus import SingleRun, make_run, parse_config
from ludus.errors import ConfigError
from ludus.runs.population import PopulationRun

KUHN = """
name: refused
games: [open_spiel:kuhn_poker]
train: {steps: 100}
population: {oracle: learned}
"""


def refusal(tmp_path: Path, *replacements: tuple[str, str]) -> str:
    text = KUHN
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(ConfigError) as caught:
        make_run(parse_config(text, "refused.yaml"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("learned}", "learned, meta_options: {color: red}}", "population.meta_options: .*no option 'color'"),
        ("kuhn_poker]", "kuhn_poker(players=3)]", "population.meta_solver: nash is for two players"),
        ("learned}", "learned, scheduler: league, shared: false}", "population.shared: league has one population"),
        ("learned}", "learned, initialise: pretrained}", "population.initialise: pretrained begins with policy.start"),
        ("learned}", "learned, ties: first}", "population.ties: has no effect: population.oracle is learned"),
        ("learned}", "exact, scheduler: league}", "population.scheduler: .* write population.oracle: learned"),
        ("learned}", "learned}\nevaluate: {games: 3}", "evaluate.games: a population is measured by its own matches"),
        ("learned}", "learned}\nmode: explore", "mode: a population explores and trains"),
        ("[open_spiel:kuhn_poker]", "[pgx:tic_tac_toe, pgx:connect_four]", "games: a population plays one game"),
        (
            "learned}",
            "learned, learners: {other: {changes: {train: {steps: none}}}}}",
            "population.learners.other: .*train.steps",
        ),
        ("learned}", "learned, league: {self_play: 0.9, verification: 0.3}}", "population.league.verification"),
    ],
)
def test_contradictions_are_named(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert re.search(expected, refusal(tmp_path, (old, new)))


def test_each_loop_says_which_one_runs_a_config() -> None:
    with pytest.raises(ConfigError, match="PopulationRun"):
        SingleRun(parse_config(KUHN, "refused.yaml"))
    with pytest.raises(ConfigError, match="run it with SingleRun"):
        PopulationRun(parse_config(KUHN.replace("learned", "exact"), "refused.yaml"))
